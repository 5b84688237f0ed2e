// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/layer_cost.h"

#include <algorithm>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/plan/comm_cost.h"

namespace trireme::plan {
namespace {

// FLOPs of attention's backward over forward: recomputes scores, then four matmuls for two (Dao et
// al., FlashAttention, 2022).
constexpr double attention_backward = 2.5;
// Element-wise work, backward over forward: each op also reads the gradient.
constexpr double elementwise_backward = 2;
// Batch norm reads a convolution's result twice and writes it; the activation adds to it.
constexpr double convolution_traffic = 4;
// Traffic of a gather and its positions, per output element of an embedding.
constexpr double embedding_traffic = 3;
// A byte per element and its share of a scale: 4 bytes for 128, or 1 for 32 elements.
double bytes_of_fp8(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::tensor ? 1.0 : 1.0 + 1.0 / 32;
}

struct Matmul {
  double rows, in, out;  // as this rank computes it
  double sum_width = 0;  // columns that are summed over tensor-parallel ranks; 0 = none
  bool sums_forward = false;
  bool trained = true;  // else its weights need no gradient
  double groups = 1;    // of rows, each with a matrix of its own
  double load = 1;      // of the rank that has most rows, over the mean

  [[nodiscard]] double flops() const { return 2 * rows * in * out; }
};

struct Work {
  std::vector<Matmul> matmuls;
  double attention_flops = 0, convolution_flops = 0;
  double elementwise_bytes = 0, convolution_bytes = 0;
  int filters = 0, trained_filters = 0;
};

class LayerModel {
 public:
  LayerModel(std::size_t layer, bool block, const StepInput& input, const Hardware& hardware)
      : layer_(input.layers[layer]),
        counted_(input.work.empty() ? nullptr : &input.work[layer]),
        input_(input),
        hardware_(hardware),
        efficiency_(counted_ == nullptr ? hardware.efficiency : hardware.efficiency_of_counted()),
        tensor_(input.mesh.tensor),
        element_(static_cast<double>(size_of(input.build.compute))),
        rows_(static_cast<double>(input.build.micro_batch * input.rows_per_sample /
                                  input.build.context.blocks)),
        fp8_(block && input.precision == Precision::fp8),
        fp8_bytes_(bytes_of_fp8(input.build.fp8.recipe)),
        group_(span_of(MeshAxis::tensor, input.mesh, hardware.links)),
        expert_group_(span_of(MeshAxis::experts, input.mesh, hardware.links)),
        context_group_(span_of(MeshAxis::context, input.mesh, hardware.links)),
        block_(block) {
    find_work();
  }

  LayerSeconds seconds() const {
    LayerSeconds s = counted_ != nullptr ? counted_seconds() : declared_seconds();
    add_messages(s);
    add_expert_messages(s);
    repeat_by_blocks(s);
    add_context_messages(s);
    return s;
  }

 private:
  // A declaration is of one block of sequences that are cut in time; counts are of a micro-batch.
  void repeat_by_blocks(LayerSeconds& s) const {
    const double blocks = input_.build.context.local();
    for (double* const part : {&s.tensor_forward, &s.tensor_backward, &s.tensor_bytes,
                               &s.expert_forward, &s.expert_backward, &s.expert_bytes})
      *part *= blocks;
    if (counted_ != nullptr) return;
    for (double* const part : {&s.forward, &s.backward_input, &s.backward_weight, &s.recompute})
      *part *= blocks;
  }

  LayerSeconds counted_seconds() const {
    return {.forward = seconds_of_all(counted_->forward),
            .backward_input = seconds_of_all(counted_->backward_input),
            .backward_weight = seconds_of_all(counted_->backward_weight),
            .recompute = seconds_of_all(counted_->recompute)};
  }

  double seconds_of_all(const std::vector<OperationWork>& work) const {
    double sum = 0;
    for (const OperationWork& each : work)
      sum += plan::seconds_of(each, input_.precision, hardware_);
    return sum;
  }

  LayerSeconds declared_seconds() const {
    LayerSeconds s;
    double weights = 0, trained = 0;
    for (const Matmul& matmul : work_.matmuls) {
      weights += matmul_seconds(matmul);
      if (matmul.trained) trained += matmul_seconds(matmul);
    }
    const Quantising quantising = quantising_seconds();
    const double convolution = op_seconds(work_.convolution_flops, work_.convolution_bytes,
                                          efficiency_.convolution, work_.filters);
    const double attention = declared_attention();
    const double elementwise =
        op_seconds(0, work_.elementwise_bytes, 1, static_cast<int>(work_.matmuls.size()) + 1);
    s.forward = weights + quantising.forward + convolution + attention + elementwise;
    const bool first = layer_.forward_flops == 0;
    const double trained_filters =
        work_.filters > 0 ? convolution * work_.trained_filters / work_.filters : convolution;
    // Images need no gradient.
    const bool reads_images = work_.filters > 0 && &layer_ == &input_.layers.front();
    s.backward_weight =
        trained + quantising.backward_weight + trained_filters + (first ? elementwise : 0);
    s.backward_input =
        first ? 0
              : weights + quantising.backward_input + (reads_images ? 0 : convolution) +
                    attention_backward * attention + elementwise_backward * elementwise;
    if (block_ && input_.build.recompute == Recompute::full) s.recompute = s.forward;
    if (block_ && input_.build.recompute == Recompute::selective)
      s.recompute = selective_seconds(weights, attention, elementwise);
    return s;
  }

  double declared_attention() const {
    return op_seconds(work_.attention_flops, 0,
                      efficiency_.attention_of(static_cast<double>(input_.head_size)),
                      work_.attention_flops > 0 ? 1 : 0);
  }

  void find_work() {
    double flops = layer_.forward_flops / tensor_;
    const double rows_whole = input_.build.sums.sequence ? rows_ / tensor_ : rows_;
    for (const ParamSpec& spec : layer_.params) {
      if (spec.shape.rank() == 4) {
        ++work_.filters;
        if (spec.kind != ParamKind::frozen) ++work_.trained_filters;
        work_.convolution_bytes += element_ * static_cast<double>(spec.shape.count());
      }
      if (spec.expert && spec.matrix) {
        const Matmul& matmul = work_.matmuls.emplace_back(expert_matmul(spec));
        flops -= matmul.flops();
        work_.elementwise_bytes += input_.engine.elementwise_traffic * element_ * matmul.load *
                                   matmul.rows * (matmul.in + matmul.out);
      }
      if (!spec.matrix || spec.shape.rank() != 2 || layer_.forward_flops == 0) continue;
      const bool rows_split = spec.shard_axis == 1, columns_split = spec.shard_axis == 0;
      const auto out = static_cast<double>(spec.shape[0]), in = static_cast<double>(spec.shape[1]);
      // A classifier reads one row of each sample; its declared FLOPs show that.
      const double declared = layer_.forward_flops / (2 * static_cast<double>(spec.shape.count()));
      Matmul matmul{.rows = std::min(rows_, std::round(declared)),
                    .in = rows_split ? in / tensor_ : in,
                    .out = columns_split ? out / tensor_ : out,
                    .sum_width = spec.adapter    ? 0
                                 : rows_split    ? out
                                 : columns_split ? in
                                                 : 0,
                    .sums_forward = rows_split,
                    .trained = spec.kind != ParamKind::frozen};
      flops -= matmul.flops();
      work_.elementwise_bytes += input_.engine.elementwise_traffic * element_ *
                                 ((rows_split ? rows_ : rows_whole) * matmul.in +
                                  (columns_split ? rows_ : rows_whole) * matmul.out);
      work_.matmuls.push_back(matmul);
    }
    const auto outputs = static_cast<double>(layer_.held);
    if (layer_.forward_flops == 0) work_.elementwise_bytes = embedding_traffic * element_ * outputs;
    (work_.filters > 0 ? work_.convolution_flops : work_.attention_flops) = std::max(flops, 0.0);
    if (work_.filters > 0) {
      work_.convolution_bytes += (work_.filters + 1) * element_ * outputs;
      work_.elementwise_bytes += convolution_traffic * work_.filters * element_ * outputs;
    }
  }

  // Of a rank's share of the experts, with an even load.
  Matmul expert_matmul(const ParamSpec& spec) const {
    const ExpertMessages& experts = layer_.traffic.experts;
    const bool alone = expert_group_.size == 1;
    return {.rows = static_cast<double>(experts.rows),
            .in = static_cast<double>(spec.shape[2]),
            .out = static_cast<double>(spec.shape[1]),
            .groups = static_cast<double>(spec.shape[0]) / expert_group_.size,
            .load = alone ? 1 : input_.build.experts.imbalance};
  }

  // Attention, or in its place a share of the matmuls; and the activation function, which is half
  // of the element-wise work. A split backward needs attention's result in both halves.
  double selective_seconds(double matmuls, double attention, double elementwise) const {
    const double share = input_.engine.selective_matmuls;
    if (share > 0) return share * matmuls + elementwise;
    return (input_.build.split_backward ? 2 : 1) * attention + elementwise / 2;
  }

  // Outside the matmuls of blocks, fp8 computes in bf16.
  double rate(bool matmul) const { return peak_of(input_.precision, matmul && fp8_, hardware_); }

  double bytes_seconds(double bytes) const {
    return bytes / (hardware_.device.memory_bandwidth * efficiency_.memory);
  }

  double op_seconds(double flops, double bytes, double efficiency, int launches) const {
    return std::max(flops > 0 ? flops / (rate(false) * efficiency) : 0, bytes_seconds(bytes)) +
           launches * hardware_.device.launch_seconds;
  }

  double matmul_seconds(const Matmul& matmul) const {
    const double min_dimension = std::min({matmul.rows / matmul.groups, matmul.in, matmul.out});
    const double reached = efficiency_.matmul_of(min_dimension);
    const double operands =
        matmul.rows * (matmul.in + matmul.out) + matmul.groups * matmul.in * matmul.out;
    const double bytes = operands * (fp8_ ? fp8_bytes_ : element_);
    return matmul.load * std::max(matmul.flops() / (rate(true) * reached), bytes_seconds(bytes)) +
           hardware_.device.launch_seconds;
  }

  // What fp8 costs beside the products, by the pass that does it (models/layers/fp8_matmuls.h),
  // reading operands and writing codes and scales: x in both, dy once for its two products, unless
  // they are apart; weights once a step where their codes are kept, else with each product that
  // reads them.
  struct Quantising {
    double forward = 0, backward_input = 0, backward_weight = 0;
  };
  Quantising quantising_seconds() const {
    Quantising sum;
    if (!fp8_) return sum;
    const BuildOptions& build = input_.build;
    const auto seconds = [&](double elements) {
      return bytes_seconds(elements * (element_ + fp8_bytes_));
    };
    for (const Matmul& matmul : work_.matmuls) {
      const double x = seconds(matmul.rows * matmul.in), dy = seconds(matmul.rows * matmul.out);
      const double weight = seconds(matmul.in * matmul.out);
      if (!input_.engine.quantises_once) {
        sum.forward += x + dy + weight;
        sum.backward_input += x + dy + weight;
        if (matmul.trained) sum.backward_weight += x + dy + weight;
        continue;
      }
      const double kept = build.fp8.keeps_weights ? 1.0 / input_.schedule.micro_batches : 1.0;
      sum.forward += x + kept * weight;
      sum.backward_input += dy + (build.fp8.keeps_weights ? 0 : weight);
      if (matmul.trained) sum.backward_weight += x + (build.split_backward ? dy : 0);
    }
    return sum;
  }

  // Of an element that tensor ranks add up.
  double summed_bytes() const {
    const double exact = input_.engine.partial_sum_bytes;
    return input_.build.sums.rounded ? std::min(element_, exact) : exact;
  }

  // Recomputing a block sends what its forward sends; engines that repeat matmuls keep their sums.
  bool repeats(Collective collective) const {
    if (!block_) return false;
    if (input_.build.recompute == Recompute::full) return true;
    return input_.build.recompute == Recompute::selective && input_.engine.selective_matmuls > 0 &&
           collective == Collective::all_gather;
  }

  // Halos of spatial parallelism and sums of their parts, half of them in forward, and
  // sums of weight gradients.
  void add_halos(LayerSeconds& s) const {
    const double ranks = tensor_;
    const auto half = [&](Collective collective, double bytes, double sent) {
      const double seconds = seconds_of(collective, bytes, group_, hardware_.links);
      s.tensor_forward += seconds / 2;
      s.tensor_backward += seconds / 2;
      s.tensor_bytes += sent;
      if (!repeats(collective)) return;
      s.tensor_backward += seconds / 2;
      s.tensor_bytes += sent / 2;
    };
    for (const double bytes : layer_.traffic.exchanges)
      half(Collective::all_to_all, bytes * ranks / (ranks - 1), bytes);
    for (const double bytes : layer_.traffic.gathers)
      half(Collective::all_gather, bytes, bytes_sent(Collective::all_gather, bytes, tensor_));
    for (const double bytes : layer_.traffic.sums) {
      s.tensor_backward += seconds_of(Collective::all_reduce, bytes, group_, hardware_.links);
      s.tensor_bytes += bytes_sent(Collective::all_reduce, bytes, tensor_);
    }
  }

  // Rows go to the ranks with their experts and their outputs return; backward does the same
  // with gradients. Those beyond a rank's memory go in further rounds, of which backward keeps
  // nothing: it sends the inputs again.
  void add_expert_messages(LayerSeconds& s) const {
    if (expert_group_.size == 1 || layer_.traffic.experts.rows == 0) return;
    const ExpertMessages& experts = layer_.traffic.experts;
    const auto rows = static_cast<double>(experts.rows);
    const double load =
        std::min(input_.build.experts.imbalance, static_cast<double>(experts.most) / rows);
    const double bytes = rows * experts.row_bytes;
    const double sent = bytes_sent(Collective::all_to_all, bytes, expert_group_.size);
    const double seconds =
        load * seconds_of(Collective::all_to_all, bytes, expert_group_, hardware_.links);
    const double beside = hardware_.links.overlap * experts.beside_flops / tensor_ /
                          (rate(true) * efficiency_.matmul_of(rows_));
    const bool full = block_ && input_.build.recompute == Recompute::full;
    const bool again = load * rows > static_cast<double>(experts.capacity);
    const double forward = 2 * seconds - std::min(seconds, beside) + counts_seconds();
    s.expert_forward = forward;
    s.expert_backward = (again ? 3 : 2) * seconds + (full ? forward : 0);
    s.expert_bytes = ((again ? 5 : 4) + (full ? 2 : 0)) * sent;
  }
  // Keys and values come during the attention of the group before; nothing hides the rest.
  void add_context_messages(LayerSeconds& s) const {
    if (context_group_.size == 1) return;
    const ContextMessages& sent = layer_.traffic.context;
    const auto send = [&](Collective collective, double bytes, double count, double& seconds) {
      const double each = seconds_of(collective, bytes / count, context_group_, hardware_.links);
      seconds += count * each;
      s.context_bytes += bytes_sent(collective, bytes, context_group_.size);
      return each;
    };
    const auto gather = [&](double& seconds, double attention) {
      const double each = send(Collective::all_gather, sent.gathered, sent.groups, seconds);
      const double beside = hardware_.links.overlap * attention / sent.groups;
      seconds -= (sent.groups - 1) * std::min(each, beside);
    };
    const auto [attention, attention_gradient] = attention_seconds();
    const auto send_forward = [&](double& seconds, bool again) {
      gather(seconds, attention);
      send(Collective::all_to_all, sent.returned, 1, seconds);
      if (again && input_.build.recompute == Recompute::selective) return;
      send(Collective::all_to_all, sent.exchanged, 1, seconds);
    };
    send_forward(s.context_forward, /*again=*/false);
    gather(s.context_backward, attention_gradient);
    send(Collective::reduce_scatter, sent.reduced, sent.groups, s.context_backward);
    send(Collective::all_to_all, 2 * sent.exchanged, 2, s.context_backward);
    send(Collective::all_to_all, 2 * sent.returned, 1, s.context_backward);
    if (block_ && input_.build.recompute != Recompute::none)
      send_forward(s.context_backward, /*again=*/true);
  }

  // Of all of a rank's blocks, forward and backward.
  std::pair<double, double> attention_seconds() const {
    const auto counted = [&](const std::vector<OperationWork>& all) {
      double sum = 0;
      for (const OperationWork& each : all)
        if (each.rate == Rate::attention)
          sum += plan::seconds_of(each, input_.precision, hardware_);
      return sum;
    };
    if (counted_ != nullptr) return {counted(counted_->forward), counted(counted_->backward_input)};
    const double seconds = input_.build.context.local() * declared_attention();
    return {seconds, attention_backward * seconds};
  }

  // All ranks learn how many rows each sends, and the host waits for that: a copy, and a launch
  // that nothing hides.
  double counts_seconds() const {
    constexpr int launches = 3;
    return seconds_of(Collective::all_gather, sizeof(float), expert_group_, hardware_.links) +
           launches * hardware_.device.launch_seconds;
  }

  // A row-split matmul adds up its results in forward, a column-split one its input gradients in
  // backward. With sequence parallelism sums are scattered, and inputs gathered before matmuls.
  void add_messages(LayerSeconds& s) const {
    if (tensor_ == 1) return;
    add_halos(s);
    const Links& links = hardware_.links;
    const auto sum =
        input_.build.sums.sequence ? Collective::reduce_scatter : Collective::all_reduce;
    const double shown = 1 - links.overlap * input_.engine.hidden_tensor_messages;
    const auto send = [&](Collective collective, double bytes, double& exposed, double hidden_by) {
      const double seconds = seconds_of(collective, bytes, group_, links);
      exposed += std::max(0.0, seconds * shown - links.overlap * hidden_by);
      s.tensor_bytes += bytes_sent(collective, bytes, tensor_);
    };
    const auto send_forward = [&](Collective collective, double bytes, double hidden_by = 0) {
      send(collective, bytes, s.tensor_forward, hidden_by);
      if (repeats(collective)) send(collective, bytes, s.tensor_backward, hidden_by);
    };
    for (const Matmul& matmul : work_.matmuls) {
      if (matmul.sum_width == 0) continue;
      const double elements = rows_ * matmul.sum_width;
      const double sum_bytes = elements * summed_bytes();
      const double gather_bytes = input_.build.sums.sequence ? elements * element_ : 0;
      if (matmul.sums_forward) {
        send_in_chunks(sum, sum_bytes, matmul, 0, send_forward);
        send(Collective::all_gather, gather_bytes, s.tensor_backward, 0);
        continue;
      }
      const bool hides = input_.engine.hides_input_gradient_sums && !input_.build.split_backward;
      send_in_chunks(sum, sum_bytes, matmul, hides ? matmul_seconds(matmul) : 0,
                     [&](Collective collective, double bytes, double hidden_by) {
                       send(collective, bytes, s.tensor_backward, hidden_by);
                     });
      send_forward(Collective::all_gather, gather_bytes);
    }
    if (layer_.forward_flops == 0 && !layer_.params.empty() && layer_.output.rank() > 0) {
      const double width = static_cast<double>(layer_.output[layer_.output.rank() - 1]);
      send(sum, rows_ * width * std::min(element_, input_.engine.partial_sum_bytes),
           s.tensor_forward, 0);
    }
  }

  // Each chunk's sum is a message beside the next chunks' products; the last is beside `after`
  // seconds of other work, which also hide what earlier ones leave.
  template <typename Send>
  void send_in_chunks(Collective sum, double bytes, const Matmul& matmul, double after,
                      const Send& send) const {
    const int chunks = input_.build.sums.chunks;
    const double seconds = seconds_of(sum, bytes / chunks, group_, hardware_.links);
    const double left = std::max(0.0, after - seconds) / std::max(chunks - 1, 1);
    const double beside = std::min(seconds, matmul_seconds(matmul) / chunks + left);
    for (int i = 1; i < chunks; ++i)
      send(sum, bytes / chunks, beside);
    send(sum, bytes / chunks, after);
  }

  const LayerSummary& layer_;
  const LayerWork* counted_;
  const StepInput& input_;
  const Hardware& hardware_;
  Efficiency efficiency_;
  int tensor_;
  double element_, rows_;
  bool fp8_;
  double fp8_bytes_;
  GroupSpan group_, expert_group_, context_group_;
  bool block_;
  Work work_;
};

}  // namespace

LayerSeconds layer_seconds(std::size_t layer, bool block, const StepInput& input,
                           const Hardware& hardware) {
  return LayerModel(layer, block, input, hardware).seconds();
}

}  // namespace trireme::plan
