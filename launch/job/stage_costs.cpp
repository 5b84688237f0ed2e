// SPDX-License-Identifier: Apache-2.0
#include "launch/job/stage_costs.h"

#include <algorithm>
#include <cmath>

#include "launch/engine/memory_plan.h"
#include "launch/engine/options.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/comm/host_stream.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

constexpr int rounds_each = 6, most_rounds = 18;

// A step of the same schedule that shows all its passes; long ones are more of the same.
ScheduleShape short_step(const ScheduleShape& shape) {
  ScheduleShape shorter = shape;
  shorter.micro_batches = std::min(shape.micro_batches, 2 * shape.stages);
  return unsupported(shorter) ? shape : shorter;
}

// Whether the ranks of this host find memory for as much again as a run's activations, and beside
// it for twice as much, which a schedule may keep: on a CPU nobody is told when there is none.
bool host_has_room(std::size_t activations, std::int64_t ranks) {
  const HostMemory memory = host_memory();
  const double needed = 3.0 * static_cast<double>(activations) * static_cast<double>(ranks);
  const auto part_of = [](std::uint64_t bytes, double part) {
    return part * static_cast<double>(bytes);
  };
  return needed < part_of(memory.available_bytes, 0.5) &&
         (memory.limit_bytes == 0 || needed < part_of(memory.limit_bytes, 0.25));
}

// What one rank measured; all zero: nothing.
struct RankSample {
  // By turns: what is measured at one time is compared.
  struct Beside {
    PassTimes whole, other;
  };
  PassTimes alone, whole;
  Beside split, half;
};

class StageMeasurement {
 public:
  StageMeasurement(Session& session, const Costs& costs, const LastPass& last)
      : session_(session),
        costs_(costs),
        last_(last),
        step_(short_step(session.pipeline)),
        options_(build_options(session.config, session.mesh.here().tensor, /*training=*/true)) {}

  [[nodiscard]] std::optional<StageCosts> run(const StageQuestions& questions) {
    look_around();
    auto whole = build(options_, step_, last_);
    if (!whole) return std::nullopt;
    measure_company(*whole);
    const bool split = questions.split && measure_split(*whole);
    const bool half = questions.half && measure_half(*whole);
    const std::vector<RankSample> all = gather();
    tell(all);
    StageCosts result{.cores = company(all) * session_.pipeline.stages};
    if (split) result.split = scaled(all, &RankSample::split);
    if (half) result.half = scaled(all, &RankSample::half);
    return result;
  }

 private:
  // Nothing where a rank lacks the memory. Collective.
  [[nodiscard]] std::optional<StageProbe> build(const BuildOptions& options,
                                                const ScheduleShape& step, const LastPass& last) {
    std::optional<StageProbe> probe;
    bool fits = session_.device->type() != DeviceType::cpu ||
                host_has_room(session_.model->activation_bytes(), ranks_here_);
    try {
      if (fits) {
        auto model = session_.part_built(options, step);
        if (session_.config.device.graphs == GraphMode::layer) model->use_layer_graphs();
        probe.emplace(std::move(model), step, session_.mesh.here().pipeline,
                      *session_.streams.compute, session_.tensor, last);
      }
    } catch (const OutOfMemory&) {
      fits = false;
    }
    if (largest_of_any_rank<1>(*session_.world, {fits ? 0 : 1})[0] == 0) return probe;
    if (session_.world->rank() == 0)
      log::get("train").debug("no memory to measure stages of a pipeline as others would be");
    return std::nullopt;
  }

  // By turns the first rank of each host alone, and all of them. Ranks of a tensor group only
  // compute together.
  void measure_company(StageProbe& whole) {
    Communicator& world = *session_.world;
    const bool goes_alone = session_.mesh.shape().tensor == 1 && first_of_host_;
    const int repeats = rounds() / rounds_each;
    std::vector<PassTimes> alone, together;
    whole.step();
    for (int round = 0; round < rounds_each; ++round) {
      world.barrier();
      if (goes_alone) alone.push_back(whole.step());
      world.barrier();
      for (int i = 0; i < repeats; ++i)
        together.push_back(whole.step());
    }
    world.barrier();
    own_.alone = usual(alone);
    own_.whole = usual(together);
  }

  [[nodiscard]] bool measure_split(StageProbe& whole) {
    BuildOptions options = options_;
    options.split_backward = true;
    ScheduleShape step = step_;
    step.kind = ScheduleKind::zero_bubble;
    return measure_beside(whole, options, step, last_, own_.split);
  }

  [[nodiscard]] bool measure_half(StageProbe& whole) {
    BuildOptions options = options_;
    options.micro_batch /= 2;
    LastPass last = last_;
    last.batch = first_samples(last_.batch, options.micro_batch);
    return measure_beside(whole, options, step_, last, own_.half);
  }

  [[nodiscard]] bool measure_beside(StageProbe& whole, const BuildOptions& options,
                                    const ScheduleShape& step, const LastPass& last,
                                    RankSample::Beside& sample) {
    auto other = build(options, step, last);
    if (!other) return false;
    const int count = rounds();
    std::vector<PassTimes> of_whole, of_other;
    other->step();
    session_.world->barrier();
    for (int round = 0; round < count; ++round) {
      of_whole.push_back(whole.step());
      of_other.push_back(other->step());
    }
    session_.world->barrier();
    sample = {.whole = usual(of_whole), .other = usual(of_other)};
    return true;
  }

  // Short stages go through more, so that all compute until the end; ranks of a tensor group, whose
  // pipelines were measured apart, through as many. Collective over that group.
  [[nodiscard]] int rounds() const {
    const ScheduleShape& shape = session_.pipeline;
    const auto of_stage = [&](int stage) {
      double sum = 0;
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const auto at = static_cast<std::size_t>(virtual_stage(shape, stage, chunk));
        sum += costs_.forward[at] + costs_.backward[at] + costs_.backward_weight[at];
      }
      return sum;
    };
    double longest = 0;
    for (int stage = 0; stage < shape.stages; ++stage)
      longest = std::max(longest, of_stage(stage));
    const double own = of_stage(session_.mesh.here().pipeline);
    const double wanted = own > 0 ? std::ceil(rounds_each * longest / own) : rounds_each;
    const auto count = static_cast<std::int64_t>(std::min<double>(wanted, most_rounds));
    return static_cast<int>(largest_of_any_rank<1>(session_.mesh.tensor(), {count})[0]);
  }

  void look_around() {
    const std::vector<std::string> hosts = gather_texts(*session_.world, host_name());
    const auto here = hosts.begin() + session_.world->rank();
    first_of_host_ = std::find(hosts.begin(), here, *here) == here;
    ranks_here_ = std::ranges::count(hosts, *here);
  }

  [[nodiscard]] std::vector<RankSample> gather() {
    constexpr std::int64_t values = sizeof(RankSample) / sizeof(double);
    std::vector<RankSample> all(static_cast<std::size_t>(session_.world->size()));
    const auto tensor_of = [](RankSample* samples, std::size_t count) {
      return Tensor{reinterpret_cast<std::byte*>(samples), DType::f64,
                    Shape{static_cast<std::int64_t>(count) * values}};
    };
    const HostStream stream;
    session_.world->all_gather(*stream, tensor_of(&own_, 1), tensor_of(all.data(), all.size()));
    return all;
  }

  void tell(const std::vector<RankSample>& all) const {
    if (session_.world->rank() > 0) return;
    const auto text = [](const PassTimes& times) {
      return fmt::format("{:.2f} + {:.2f} + {:.2f}", times.forward, times.backward,
                         times.backward_weight);
    };
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      log::get("train").debug(
          "stage of rank {}, ms forward + backward + its second part: alone {}, beside the others "
          "{}, in two parts {}, of half a micro-batch {}",
          rank, text(all[rank].alone), text(all[rank].whole), text(all[rank].split.other),
          text(all[rank].half.other));
  }

  // How fast a rank computes beside the others of its host, of how fast alone: the mean over hosts.
  [[nodiscard]] static double company(const std::vector<RankSample>& all) {
    double sum = 0, hosts = 0;
    for (const RankSample& rank : all) {
      if (!(rank.alone.all() > 0) || !(rank.whole.all() > 0)) continue;
      sum += std::min(rank.alone.all() / rank.whole.all(), 1.0);
      ++hosts;
    }
    return hosts > 0 ? sum / hosts : 1;
  }

  // The run's costs, by what the passes of a stage's ranks take now beside what they took whole.
  [[nodiscard]] Costs scaled(const std::vector<RankSample>& all,
                             RankSample::Beside RankSample::*what) const {
    const ScheduleShape& shape = session_.pipeline;
    Costs costs = costs_;
    const std::size_t of_stage = all.size() / static_cast<std::size_t>(shape.stages);
    for (int stage = 0; stage < shape.stages; ++stage) {
      PassTimes now, whole;
      for (std::size_t i = 0; i < of_stage; ++i) {
        const auto& rank = all[static_cast<std::size_t>(stage) * of_stage + i].*what;
        add(now, rank.other);
        add(whole, rank.whole);
      }
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const auto at = static_cast<std::size_t>(virtual_stage(shape, stage, chunk));
        costs.forward[at] *= ratio(now.forward, whole.forward);
        costs.backward[at] *= ratio(now.backward, whole.backward);
        costs.backward_weight[at] =
            whole.backward_weight > 0
                ? costs_.backward_weight[at] * ratio(now.backward_weight, whole.backward_weight)
                : costs_.backward[at] * ratio(now.backward_weight, whole.backward);
      }
    }
    return costs;
  }
  static double ratio(double now, double before) { return before > 0 ? now / before : 1; }
  static void add(PassTimes& sum, const PassTimes& more) {
    sum.forward += more.forward;
    sum.backward += more.backward;
    sum.backward_weight += more.backward_weight;
  }

  Session& session_;
  const Costs& costs_;
  const LastPass& last_;
  ScheduleShape step_;
  BuildOptions options_;
  bool first_of_host_ = false;
  std::int64_t ranks_here_ = 1;
  RankSample own_{};
};

}  // namespace

std::optional<StageCosts> measure_stages(Session& session, const Costs& costs, const LastPass& last,
                                         const StageQuestions& questions) {
  return StageMeasurement(session, costs, last).run(questions);
}

}  // namespace trireme
