// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/layer_cost.h"

#include <algorithm>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/plan/comm_cost.h"

namespace trireme::plan {
namespace {

// A byte per element and its share of a scale: 4 bytes for 128, or 1 for 32 elements.
double bytes_of_fp8(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::tensor ? 1.0 : 1.0 + 1.0 / 32;
}

// A product that tensor-parallel ranks share, as this rank computes it.
struct Matmul {
  double rows, in, out;
  double sum_width;  // columns that are summed over the ranks
  bool sums_forward;
};

class LayerModel {
 public:
  LayerModel(std::size_t layer, bool block, const StepInput& input, const Hardware& hardware)
      : layer_(input.layers[layer]),
        work_(input.work[layer]),
        input_(input),
        hardware_(hardware),
        tensor_(input.mesh.tensor),
        element_(static_cast<double>(size_of(input.build.compute))),
        rows_(static_cast<double>(input.build.micro_batch * input.rows_per_sample /
                                  input.build.context.blocks)),
        fp8_(block && input.precision == Precision::fp8),
        group_(span_of(MeshAxis::tensor, input.mesh, hardware.links)),
        expert_group_(span_of(MeshAxis::experts, input.mesh, hardware.links)),
        context_group_(span_of(MeshAxis::context, input.mesh, hardware.links)),
        block_(block) {}

  LayerSeconds seconds() const {
    LayerSeconds s{.forward = seconds_of_all(work_.forward),
                   .backward_input = seconds_of_all(work_.backward_input),
                   .backward_weight = seconds_of_all(work_.backward_weight),
                   .recompute = seconds_of_all(work_.recompute)};
    add_messages(s);
    add_expert_messages(s);
    // A declaration is of one block of sequences that are cut in time; work is of a micro-batch.
    for (double* const part : {&s.tensor_forward, &s.tensor_backward, &s.tensor_bytes,
                               &s.expert_forward, &s.expert_backward, &s.expert_bytes})
      *part *= input_.build.context.local();
    add_context_messages(s);
    return s;
  }

 private:
  double seconds_of(const Traffic& work) const {
    return plan::seconds_of(work, input_.precision, hardware_);
  }
  double seconds_of_all(const std::vector<Traffic>& work) const {
    double sum = 0;
    for (const Traffic& each : work)
      sum += seconds_of(each);
    return sum;
  }
  double attention_seconds(const std::vector<Traffic>& work) const {
    double sum = 0;
    for (const Traffic& each : work)
      if (each.rate == WorkRate::attention) sum += seconds_of(each);
    return sum;
  }

  // A layer without products is a table of embeddings.
  bool multiplies() const {
    return std::ranges::any_of(work_.forward, [](const Traffic& each) { return each.flops > 0; });
  }

  std::vector<Matmul> split_matmuls() const {
    std::vector<Matmul> all;
    for (const ParamSpec& spec : layer_.params) {
      const bool rows_split = spec.shard_axis == 1, columns_split = spec.shard_axis == 0;
      if (!spec.matrix || spec.shape.rank() != 2 || spec.adapter) continue;
      if (!rows_split && !columns_split) continue;
      const auto out = static_cast<double>(spec.shape[0]), in = static_cast<double>(spec.shape[1]);
      all.push_back({.rows = rows_,
                     .in = rows_split ? in / tensor_ : in,
                     .out = columns_split ? out / tensor_ : out,
                     .sum_width = rows_split ? out : in,
                     .sums_forward = rows_split});
    }
    return all;
  }

  double matmul_seconds(const Matmul& matmul) const {
    const double operands = matmul.rows * (matmul.in + matmul.out) + matmul.in * matmul.out;
    return seconds_of({.rate = fp8_ ? WorkRate::matmul_fp8 : WorkRate::matmul,
                       .read = operands * (fp8_ ? bytes_of_fp8(input_.build.fp8.recipe) : element_),
                       .flops = 2 * matmul.rows * matmul.in * matmul.out,
                       .smallest = std::min({matmul.rows, matmul.in, matmul.out})});
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
    return input_.build.recompute == Recompute::selective && input_.engine.repeats_gathers &&
           collective == Collective::all_gather;
  }

  // Halos of spatial parallelism and sums of their parts, half of them in forward, and
  // sums of weight gradients.
  void add_halos(LayerSeconds& s) const {
    const double ranks = tensor_;
    const auto half = [&](Collective collective, double bytes, double sent) {
      const double seconds = plan::seconds_of(collective, bytes, group_, hardware_.links);
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
      s.tensor_backward += plan::seconds_of(Collective::all_reduce, bytes, group_, hardware_.links);
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
        load * plan::seconds_of(Collective::all_to_all, bytes, expert_group_, hardware_.links);
    const double beside =
        hardware_.links.overlap * experts.beside_flops / tensor_ /
        (peak_of(input_.precision, fp8_, hardware_) * hardware_.efficiency.matmul_of(rows_));
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
      const double each =
          plan::seconds_of(collective, bytes / count, context_group_, hardware_.links);
      seconds += count * each;
      s.context_bytes += bytes_sent(collective, bytes, context_group_.size);
      return each;
    };
    const auto gather = [&](double& seconds, double attention) {
      const double each = send(Collective::all_gather, sent.gathered, sent.groups, seconds);
      const double beside = hardware_.links.overlap * attention / sent.groups;
      seconds -= (sent.groups - 1) * std::min(each, beside);
    };
    // Of all of a rank's blocks.
    const double attention = attention_seconds(work_.forward),
                 attention_gradient = attention_seconds(work_.backward_input);
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

  // All ranks learn how many rows each sends, and the host waits for that: a copy, and a launch
  // that nothing hides.
  double counts_seconds() const {
    constexpr int launches = 3;
    return plan::seconds_of(Collective::all_gather, sizeof(float), expert_group_, hardware_.links) +
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
      const double seconds = plan::seconds_of(collective, bytes, group_, links);
      exposed += std::max(0.0, seconds * shown - links.overlap * hidden_by);
      s.tensor_bytes += bytes_sent(collective, bytes, tensor_);
    };
    const auto send_forward = [&](Collective collective, double bytes, double hidden_by = 0) {
      send(collective, bytes, s.tensor_forward, hidden_by);
      if (repeats(collective)) send(collective, bytes, s.tensor_backward, hidden_by);
    };
    for (const Matmul& matmul : multiplies() ? split_matmuls() : std::vector<Matmul>{}) {
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
    if (!multiplies() && !layer_.params.empty() && layer_.output.rank() > 0) {
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
    const double seconds = plan::seconds_of(sum, bytes / chunks, group_, hardware_.links);
    const double left = std::max(0.0, after - seconds) / std::max(chunks - 1, 1);
    const double beside = std::min(seconds, matmul_seconds(matmul) / chunks + left);
    for (int i = 1; i < chunks; ++i)
      send(sum, bytes / chunks, beside);
    send(sum, bytes / chunks, after);
  }

  const LayerSummary& layer_;
  const LayerWork& work_;
  const StepInput& input_;
  const Hardware& hardware_;
  int tensor_;
  double element_, rows_;
  bool fp8_;
  GroupSpan group_, expert_group_, context_group_;
  bool block_;
};

}  // namespace

LayerSeconds layer_seconds(std::size_t layer, bool block, const StepInput& input,
                           const Hardware& hardware) {
  return LayerModel(layer, block, input, hardware).seconds();
}

}  // namespace trireme::plan
