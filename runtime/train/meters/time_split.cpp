// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/time_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// What holds other ranks up: they leave a step together, with the same gradient norm.
double held_up_by(const RankStep& rank) {
  return rank.between() + rank.own_work();
}

// When it comes to collectives: a rank that stood still for its neighbours in the pipeline holds up
// its peers as one that works.
double arrival(const RankStep& rank) {
  return held_up_by(rank) + rank.bubble;
}

struct WorkOfStage {
  const RankStep* longest = nullptr;
  double sum = 0;
};

// A wait of `rank` in collectives for the longest rank of its stage, by what made that one long.
struct Behind {
  double data = 0, core = 0, checkpoint = 0, bubble = 0, compute = 0;
};

Behind behind(const RankStep& rank, const RankStep& longest, double comm_wait) {
  const double excess = arrival(longest) - arrival(rank);
  const double wait = std::min(comm_wait, excess);
  if (!(wait > 0)) return {};
  double left = excess;
  const auto part = [&](double more) {
    const double taken = std::clamp(more, 0.0, left);
    left -= taken;
    return wait * taken / excess;
  };
  Behind waits{.data = part(longest.data_wait - rank.data_wait),
               .core = part(longest.core_wait - rank.core_wait),
               .checkpoint = part(longest.checkpoint - rank.checkpoint),
               .bubble = part(longest.bubble - rank.bubble)};
  waits.compute = wait * left / excess;
  return waits;
}

// A thread that polls for messages wants a core too. What it lacks one while a peer has not come
// yet costs nothing: that time is a wait for the peer.
std::vector<RankStep> without_idle_core_waits(std::span<const RankStep> ranks, int per_stage) {
  std::vector<RankStep> settled(ranks.begin(), ranks.end());
  const auto came = [](const RankStep& rank) { return arrival(rank) - rank.comm_core_wait; };
  const auto size = static_cast<std::size_t>(per_stage);
  for (std::size_t first = 0; first < settled.size(); first += size) {
    const std::span stage = std::span(settled).subspan(first, size);
    const double last = came(*std::ranges::max_element(stage, {}, came));
    const double least_wait =
        std::ranges::min_element(stage, {}, &RankStep::message_wait)->message_wait;
    for (RankStep& rank : stage) {
      const double behind_peers = std::max(last - came(rank), rank.message_wait - least_wait);
      const double waited = rank.comm_wait + rank.comm_core_wait;  // what it counts in
      const double left = waited - std::min(waited, behind_peers);
      const double idle = std::max(0.0, rank.comm_core_wait - left);
      if (idle == 0) continue;
      const double longer = rank.comm_wait > 0 ? (rank.comm_wait + idle) / rank.comm_wait : 1;
      for (double RankStep::*const part :
           {&RankStep::reduce_wait, &RankStep::tensor_wait, &RankStep::gather_wait})
        rank.*part *= longer;
      rank.comm_core_wait -= idle;
      rank.other_core_wait -= idle;
      rank.core_wait -= idle;
      rank.comm_wait += idle;
    }
  }
  return settled;
}

// Adds a rank's waits for messages, by what they were for.
void add_comm(StepSplit& split, const RankStep& rank, double exposed) {
  split.exposed_comm += exposed;
  if (!(rank.comm_wait > 0)) return;
  const double share = exposed / rank.comm_wait;
  split.tensor_comm += share * rank.tensor_wait;
  split.gather_comm += share * rank.gather_wait;
  split.reduce_comm += share * rank.reduce_wait;
}

struct Latest {
  std::size_t at = 0;
  double by = 0;  // than the others usually
};

// Among those that hold the most micro-batches, for which the others wait anyway.
template <typename Arrival>
Latest latest(std::span<const RankStep> stage, Arrival arrival) {
  const double most = std::ranges::max_element(stage, {}, &RankStep::micro_batches)->micro_batches;
  std::vector<double> others;
  std::optional<Latest> last;
  for (std::size_t i = 0; i < stage.size(); ++i) {
    if (stage[i].micro_batches < most) continue;
    others.push_back(arrival(stage[i]));
    if (!last || others.back() > arrival(stage[last->at])) last = {.at = i};
  }
  if (others.size() < 2) return {};
  others.erase(std::ranges::max_element(others));
  last->by = arrival(stage[last->at]) - lower_median(std::move(others));
  return *last;
}

// By its own work, or else by its messages, which left later than its work tells.
void add_late_one(std::span<RankTimes> sums, std::span<const RankStep> stage) {
  constexpr double worth_counting = 0.02;  // of the step
  Latest last = latest(stage, held_up_by);
  if (last.by < worth_counting * stage[last.at].period)
    last = latest(stage, [](const RankStep& rank) { return -rank.message_wait - rank.bubble; });
  if (last.by < worth_counting * stage[last.at].period) return;
  sums[last.at].late += last.by;
  sums[last.at].late_steps += 1;
}

}  // namespace

std::optional<double> joules_of(std::span<const RankStep> ranks) {
  double sum = 0;
  for (const RankStep& rank : ranks)
    sum += rank.joules;
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

StepSplit split_step(std::int64_t step, const MeshShape& shape, std::span<const RankStep> ranks) {
  TRIREME_EXPECTS(static_cast<int>(ranks.size()) == shape.size(), "{} ranks for a mesh of {}",
                  ranks.size(), shape.size());
  // A job of one rank waits for nobody: what its comm stream does is its own work.
  RankStep alone;
  if (shape.size() == 1) {
    alone = ranks[0];
    alone.comm_wait = alone.reduce_wait = alone.tensor_wait = alone.gather_wait = 0;
    ranks = {&alone, 1};
  }
  const int per_stage = shape.data * shape.tensor;
  const std::vector<RankStep> settled = without_idle_core_waits(ranks, per_stage);
  ranks = settled;
  std::vector<WorkOfStage> stages(static_cast<std::size_t>(shape.pipeline));
  std::vector<double> last_pass(static_cast<std::size_t>(per_stage));  // of each pipeline
  for (int r = 0; r < shape.size(); ++r) {
    const RankStep& rank = ranks[static_cast<std::size_t>(r)];
    WorkOfStage& stage = stages[static_cast<std::size_t>(r / per_stage)];
    if (stage.longest == nullptr || arrival(rank) > arrival(*stage.longest)) stage.longest = &rank;
    stage.sum += rank.own_work();
    double& last = last_pass[static_cast<std::size_t>(r % per_stage)];
    last = std::max(last, rank.before_reduce);
  }
  StepSplit split{.step = step};
  const double share = 1.0 / shape.size();
  double excess = -1;
  for (int r = 0; r < shape.size(); ++r) {
    const RankStep& rank = ranks[static_cast<std::size_t>(r)];
    const WorkOfStage& stage = stages[static_cast<std::size_t>(r / per_stage)];
    const double tail = std::min(
        rank.comm_wait, last_pass[static_cast<std::size_t>(r % per_stage)] - rank.before_reduce);
    const Behind waits = behind(rank, *stage.longest, rank.comm_wait - tail);
    const double straggler = waits.core + waits.checkpoint + waits.compute;
    const double compute = rank.own_work() - rank.data_wait;
    split.period += share * rank.period;
    split.compute += share * compute;
    split.data_wait += share * (rank.data_wait + waits.data);
    split.bubble += share * (rank.bubble + tail + waits.bubble);
    split.straggler += share * straggler;
    add_comm(split, rank, share * (rank.comm_wait - tail - waits.data - waits.bubble - straggler));
    split.between_steps += share * rank.between();
    split.checkpoint += share * rank.checkpoint;
    split.evaluation += share * rank.evaluation;
    split.forward += share * rank.forward;
    split.backward += share * rank.backward;
    split.optimizer += share * rank.optimizer;
    split.other += share * (compute - rank.forward - rank.backward - rank.optimizer);
    split.core_wait += share * rank.core_wait;
    split.other_core_wait += share * rank.other_core_wait;
    split.core_straggler += share * waits.core;
    split.checkpoint_straggler += share * waits.checkpoint;
    split.reduce += share * rank.reduce;
    split.reduce_wait += share * rank.reduce_wait;
    if (const double more = rank.own_work() - stage.sum / per_stage; more > excess) {
      excess = more;
      split.slowest_rank = r;
    }
  }
  return split;
}

void add_to(std::span<RankTimes> sums, const MeshShape& shape, std::span<const RankStep> ranks) {
  const int per_stage = shape.data * shape.tensor;
  const std::vector<RankStep> settled = without_idle_core_waits(ranks, per_stage);
  ranks = settled;
  for (int r = 0; r < shape.size(); ++r) {
    const RankStep& rank = ranks[static_cast<std::size_t>(r)];
    RankTimes& sum = sums[static_cast<std::size_t>(r)];
    sum.period += rank.period;
    sum.compute += rank.own_work() - rank.data_wait - (rank.core_wait - rank.between_core_wait);
    sum.data_wait += rank.data_wait;
    sum.comm_wait += rank.comm_wait;
    sum.bubble += rank.bubble;
    sum.core_wait += rank.core_wait;
    sum.between += rank.between() - rank.between_core_wait;
    sum.checkpoint += rank.checkpoint;
    sum.message_wait += rank.message_wait;
    sum.micro_batches += rank.micro_batches;
  }
  for (int first = 0; first < shape.size() && per_stage > 1; first += per_stage)
    add_late_one(
        sums.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(per_stage)),
        ranks.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(per_stage)));
}

std::string format_json(const StepSplit& split) {
  return fmt::format(
      "{{\"step\":{},\"period_ms\":{},\"compute_ms\":{},\"data_wait_ms\":{},\"bubble_ms\":{},"
      "\"straggler_ms\":{},\"exposed_comm_ms\":{},\"between_steps_ms\":{},\"core_wait_ms\":{},"
      "\"slowest_rank\":{}}}\n",
      split.step, split.period, split.compute, split.data_wait, split.bubble, split.straggler,
      split.exposed_comm, split.between_steps, split.core_wait + split.core_straggler,
      split.slowest_rank);
}

}  // namespace trireme
