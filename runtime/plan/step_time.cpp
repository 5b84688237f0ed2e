// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/step_time.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/parallel/schedule_timeline.h"
#include "runtime/plan/cluster.h"
#include "runtime/plan/comm_cost.h"
#include "runtime/plan/data_traffic.h"
#include "runtime/plan/layer_cost.h"

namespace trireme::plan {
namespace {

// The gradient norm reads every gradient once, clearing writes it.
constexpr double norm_and_clear_bytes = 8;

// Of a step, on all ranks.
double micro_batches_of(const StepInput& input) {
  if (input.global_micro_batches > 0) return static_cast<double>(input.global_micro_batches);
  return static_cast<double>(input.schedule.micro_batches) * input.mesh.sample_ranks();
}

bool trains(const LayerSummary& layer) {
  return std::ranges::any_of(layer.params,
                             [](const ParamSpec& spec) { return spec.kind == ParamKind::weight; });
}

// Of the first chunk: the layers below any trained weight, which have no backward.
std::size_t idle_layers(const StepInput& input) {
  const auto end = input.layers.begin() + input.stages.first_layer[1];
  return static_cast<std::size_t>(std::find_if(input.layers.begin(), end, trains) -
                                  input.layers.begin());
}

// Of a layer's matrices, those with gradients; factors of adapters are little.
double trained_share(const LayerSummary& layer) {
  double trained = 0, all = 0;
  for (const ParamSpec& spec : layer.params) {
    if (!spec.matrix || spec.adapter) continue;
    all += static_cast<double>(spec.shape.count());
    if (spec.kind == ParamKind::weight) trained += static_cast<double>(spec.shape.count());
  }
  return all > 0 ? trained / all : 1;
}

// Padding may differ in equal ones; then they are estimated again.
template <typename T>
bool same_bytes(const T& a, const T& b) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool same_traffic(const SampleTraffic& a, const SampleTraffic& b) {
  return a.exchanges == b.exchanges && a.gathers == b.gathers && a.sums == b.sums &&
         same_bytes(a.experts, b.experts) && same_bytes(a.context, b.context);
}

// How ranks slow each other down where they share the cores of a node.
struct Contention {
  double slowdown = 1;     // of computation while every core has one rank
  double time_slices = 1;  // ranks per core, at least 1
};

Contention contention_of(const Hardware& hardware, int ranks) {
  const plan::Node& node = hardware.node;
  if (node.cores == 0) return {};
  const int here = std::min(ranks, node.ranks);
  const int busy = std::min(here, node.cores);
  const double crowd =
      node.cores > 1 ? static_cast<double>(busy - 1) / static_cast<double>(node.cores - 1) : 0;
  return {1 + (node.crowded_slowdown - 1) * crowd,
          std::max(1.0, static_cast<double>(here) / node.cores)};
}

class Estimator {
 public:
  Estimator(const StepInput& input, const Hardware& hardware, StepMemo& memo)
      : input_(input),
        memo_(memo),
        hardware_(beside_messages(hardware, input.ctas, input.schedule.stages)),
        contention_(contention_of(hardware, input.mesh.size())),
        element_(static_cast<double>(size_of(input.build.compute))) {}

  StepEstimate estimate() {
    find_layers();
    replay_schedule();
    add_data_traffic();
    add_optimizer();
    add_waits();
    add_rates();
    return estimate_;
  }

 private:
  void find_layers() {
    const std::size_t count = input_.layers.size(), idle = idle_layers(input_);
    const auto is_like_last = [&](std::size_t i) {
      const LayerSummary &a = input_.layers[i - 1], &b = input_.layers[i];
      return i != idle && !input_.kinds.empty() && input_.kinds[i - 1] == input_.kinds[i] &&
             a.forward_flops == b.forward_flops && a.output == b.output && a.held == b.held &&
             a.handed_on == b.handed_on && a.splits_backward == b.splits_backward &&
             a.kept_bytes == b.kept_bytes && a.skips == b.skips &&
             same_traffic(a.traffic, b.traffic) && input_.work[i - 1] == input_.work[i];
    };
    for (std::size_t i = 0; i < count; ++i) {
      const bool block = i > 0 && i + 1 < count;
      if (i > 1 && block && is_like_last(i)) {
        layers_.push_back(layers_.back());
        continue;
      }
      LayerSeconds s = layer_seconds(i, block, input_, hardware_);
      for (double* part : {&s.forward, &s.backward_input, &s.backward_weight, &s.recompute})
        *part *= contention_.slowdown;
      if (i < idle)
        s.backward_input = s.backward_weight = s.recompute = s.tensor_backward = s.expert_backward =
            s.context_backward = 0;
      layers_.push_back(s);
    }
  }

  // Bytes of the largest tensor that a stage hands on, of all blocks of a micro-batch.
  double boundary_bytes() const {
    double largest = 0;
    const auto& first = input_.stages.first_layer;
    for (std::size_t v = 1; v + 1 < first.size(); ++v) {
      const LayerSummary& layer = input_.layers[static_cast<std::size_t>(first[v] - 1)];
      largest = std::max(largest, element_ * static_cast<double>(layer.handed_on));
    }
    return largest * input_.build.context.local();
  }

  // Seconds of a rank of a mean stage over the whole step.
  double mean_over_stages(double seconds_per_micro_batch) const {
    return seconds_per_micro_batch * input_.schedule.micro_batches / input_.schedule.stages;
  }

  void replay_schedule() {
    const ScheduleShape& shape = input_.schedule;
    const double transfer = seconds_to_next_stage(boundary_bytes(), input_.mesh,
                                                  bounded(hardware_.links, input_.ctas.link));
    Costs costs = uniform_costs(shape, 0, 0, 0, transfer);
    estimate_.stages.resize(static_cast<std::size_t>(shape.stages));
    const double shown =
        transfer * (1 - (input_.engine.hides_transfers ? hardware_.links.overlap : 0));
    double forward = 0, backward = 0, recompute = 0, tensor = 0, experts = 0, context = 0,
           transfers = 0;
    const int virtuals = virtual_stages(shape);
    for (int v = 0; v < virtuals; ++v) {
      const auto at = static_cast<std::size_t>(v);
      double tensor_bytes = 0, expert_bytes = 0, context_bytes = 0;
      // Each pass sends and receives, but at the ends of the chain.
      const double passing = shown * ((v > 0 ? 1 : 0) + (v + 1 < virtuals ? 1 : 0));
      costs.forward[at] = costs.backward[at] = passing;
      transfers += 2 * passing;
      for (int i = input_.stages.first_layer[at]; i < input_.stages.first_layer[at + 1]; ++i) {
        const LayerSeconds& s = layers_[static_cast<std::size_t>(i)];
        costs.forward[at] += s.forward + s.sent_forward();
        costs.backward[at] += s.backward_input + s.recompute + s.sent_backward();
        costs.backward_weight[at] += s.backward_weight;
        forward += s.forward;
        backward += s.backward_input + s.backward_weight;
        recompute += s.recompute;
        tensor += s.tensor_forward + s.tensor_backward;
        tensor_bytes += s.tensor_bytes;
        experts += s.expert_forward + s.expert_backward;
        expert_bytes += s.expert_bytes;
        context += s.context_forward + s.context_backward;
        context_bytes += s.context_bytes;
      }
      StepEstimate::Stage& stage = estimate_.stages[static_cast<std::size_t>(v % shape.stages)];
      stage.forward += costs.forward[at];
      stage.backward += costs.backward[at] + costs.backward_weight[at];
      const int passes = shape.chunks * shape.micro_batches;
      StepVolumes& volumes = estimate_.volumes;
      volumes.tensor = std::max(volumes.tensor, tensor_bytes * passes);
      volumes.experts = std::max(volumes.experts, expert_bytes * passes);
      volumes.context = std::max(volumes.context, context_bytes * passes);
    }
    PipelineResources resources;
    if (contention_.time_slices > 1 && shape.stages > 1)
      resources = {.cores = shape.stages / contention_.time_slices,
                   .scheduling_delay = hardware_.node.scheduling_delay,
                   .links = LinkModel::unlimited};
    simulate_schedule(costs, resources);
    estimate_.forward = mean_over_stages(forward) * contention_.time_slices;
    estimate_.backward = mean_over_stages(backward) * contention_.time_slices;
    estimate_.recompute = mean_over_stages(recompute) * contention_.time_slices;
    estimate_.tensor_exposed = mean_over_stages(tensor) * contention_.time_slices;
    estimate_.expert_exposed = mean_over_stages(experts) * contention_.time_slices;
    estimate_.context_exposed = mean_over_stages(context) * contention_.time_slices;
    estimate_.pipeline_exposed = mean_over_stages(transfers) * contention_.time_slices;
    const double busy = estimate_.forward + estimate_.backward + estimate_.recompute +
                        estimate_.tensor_exposed + estimate_.expert_exposed +
                        estimate_.context_exposed + estimate_.pipeline_exposed;
    // A stage that waits leaves its core to others.
    estimate_.bubble = std::max(0.0, timeline_.makespan - busy);
    // A stage in the middle sends forward and backward.
    const int messages = virtuals > 2 ? 2 : virtuals - 1;
    estimate_.volumes.pipeline = messages * boundary_bytes() * shape.micro_batches * shape.chunks;
  }

  void simulate_schedule(const Costs& costs, const PipelineResources& resources) {
    const Schedule& schedule = schedule_of(input_, memo_);
    if (memo_.timeline.stages.empty() || memo_.costs != costs || memo_.resources != resources)
      memo_.timeline = simulate(schedule, costs, resources);
    memo_.costs = costs;
    memo_.resources = resources;
    TRIREME_EXPECTS(timeline_.deadlock.empty(), "{}", timeline_.deadlock);
  }

  void add_data_traffic() {
    double tail_end = timeline_.makespan, slowdown = 0;
    for (int stage = 0; stage < input_.schedule.stages; ++stage) {
      const DataTraffic traffic = data_traffic(input_, hardware_, stage, layers_, memo_);
      StepEstimate::Stage& here = estimate_.stages[static_cast<std::size_t>(stage)];
      here.parameters = traffic.elements;
      here.data_tail = traffic.tail;
      const double end = timeline_.stages[static_cast<std::size_t>(stage)].back().end;
      tail_end = std::max(tail_end, end + traffic.tail);
      slowdown = std::max(slowdown, traffic.slowdown);
      estimate_.gather_exposed = std::max(estimate_.gather_exposed, traffic.gather_exposed);
      estimate_.volumes.data = std::max(estimate_.volumes.data, traffic.bytes);
      estimate_.volumes.data_out = std::max(estimate_.volumes.data_out, traffic.bytes_out);
      optimizer_elements_ = std::max(optimizer_elements_, traffic.owned_elements);
      gradient_elements_ = std::max(gradient_elements_, traffic.elements);
      buckets_ = std::max(buckets_, traffic.buckets);
    }
    const double slices = contention_.time_slices;
    estimate_.data_exposed = (tail_end - timeline_.makespan + slowdown) * slices;
    estimate_.gather_exposed *= slices;
  }

  // The update writes the compute copies of what it owns. Values that are gathered in f32 are
  // rounded by every rank, those of stage 3 by their owners for each of two passes.
  double copy_bytes() const {
    if (element_ >= 4) return 0;
    const double cast = 4 + element_;
    const bool gathers = input_.mesh.shard > 1;
    if (gathers && !input_.engine.rounded_gathers) return cast * gradient_elements_;
    if (gathers && input_.zero >= 3)
      return 2 * input_.schedule.micro_batches * cast * optimizer_elements_;
    return element_ * optimizer_elements_;
  }

  void add_optimizer() {
    const double bytes = input_.optimizer_bytes * optimizer_elements_ + copy_bytes() +
                         norm_and_clear_bytes * gradient_elements_;
    const double bandwidth = hardware_.device.memory_bandwidth * hardware_.efficiency.memory;
    // All ranks agree on the norm.
    const MeshShape world{.data = input_.mesh.size()};
    const double norm =
        seconds_of(Collective::all_reduce, sizeof(double),
                   span_of(MeshAxis::data, world, hardware_.links), hardware_.links);
    estimate_.optimizer = contention_.time_slices * contention_.slowdown *
                              (bytes / bandwidth + buckets_ * hardware_.device.launch_seconds) +
                          norm;
  }

  void add_waits() {
    StepEstimate& e = estimate_;
    const double computed = e.forward + e.backward + e.recompute;
    e.straggler = computed * hardware_.straggler_deviation * expected_largest(input_.mesh.size());
    e.total = computed + e.tensor_exposed + e.expert_exposed + e.context_exposed +
              e.pipeline_exposed + e.bubble + e.data_exposed + e.gather_exposed + e.optimizer +
              e.straggler;
    // Samples are read ahead, beside everything else.
    const double samples = static_cast<double>(input_.build.micro_batch) *
                           static_cast<double>(input_.schedule.micro_batches);
    if (hardware_.storage_bandwidth > 0)
      e.data_wait =
          std::max(0.0, samples * input_.sample_bytes / hardware_.storage_bandwidth - e.total);
    e.total += e.data_wait;
    e.sample_bandwidth = samples * input_.sample_bytes / e.total;
  }

  void add_rates() {
    StepEstimate& e = estimate_;
    e.model_flops = model_flops(input_);
    const double micro_batches = micro_batches_of(input_);
    e.samples_per_second = micro_batches * static_cast<double>(input_.build.micro_batch) / e.total;
    e.items_per_second = e.samples_per_second * static_cast<double>(input_.items_per_sample);
    e.mfu = e.model_flops / e.total / input_.mesh.size() / hardware_.flops(input_.precision);
  }

  const StepInput& input_;
  StepMemo& memo_;
  Hardware hardware_;
  Contention contention_;
  double element_;
  std::vector<LayerSeconds> layers_;
  const Timeline& timeline_ = memo_.timeline;
  double optimizer_elements_ = 0, gradient_elements_ = 0;
  int buckets_ = 0;
  StepEstimate estimate_;
};

}  // namespace

double model_flops(const StepInput& input) {
  // Each gradient of a product, of its input and of its matrix, costs as much as the product.
  double flops = 0;
  bool reached = false;  // by backward
  for (const LayerSummary& layer : input.layers) {
    reached = reached || trains(layer);
    flops += layer.forward_flops * (reached ? 2 + trained_share(layer) : 1);
  }
  return flops * micro_batches_of(input);
}

const Schedule& schedule_of(const StepInput& input, StepMemo& memo) {
  if (memo.schedule.actions.empty() || memo.schedule.shape != input.schedule) {
    memo.schedule = make_schedule(input.schedule);
    memo.timeline = {};
  }
  return memo.schedule;
}

StepEstimate estimate_step(const StepInput& input, const Hardware& hardware, StepMemo* memo) {
  TRIREME_EXPECTS(!input.layers.empty() && !input.stages.first_layer.empty() &&
                      input.work.size() == input.layers.size(),
                  "the step has {} layers, {} with work", input.layers.size(), input.work.size());
  StepMemo alone;
  return Estimator(input, hardware, memo == nullptr ? alone : *memo).estimate();
}

}  // namespace trireme::plan
