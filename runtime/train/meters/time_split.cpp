// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/time_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// What holds other ranks up.
double own_work(const RankStep& rank) {
  return rank.step - rank.comm_wait - rank.bubble;
}

struct WorkOfStage {
  const RankStep* longest = nullptr;
  double sum = 0;
};

// A wait of `rank` in collectives for the longest rank of its stage, by what made that one long.
struct Behind {
  double data = 0, core = 0, compute = 0;
};

Behind behind(const RankStep& rank, const RankStep& longest, double comm_wait) {
  const double excess = own_work(longest) - own_work(rank);
  const double wait = std::min(comm_wait, excess);
  if (!(wait > 0)) return {};
  const double data = std::clamp(longest.data_wait - rank.data_wait, 0.0, excess);
  const double core = std::clamp(longest.core_wait - rank.core_wait, 0.0, excess - data);
  return {.data = wait * data / excess,
          .core = wait * core / excess,
          .compute = wait * (excess - data - core) / excess};
}

// The lower median.
double usual_of_others(std::vector<double> others) {
  if (others.empty()) return 0;
  const auto middle = others.begin() + (std::ssize(others) - 1) / 2;
  std::ranges::nth_element(others, middle);
  return *middle;
}

}  // namespace

StepSplit split_step(std::int64_t step, const MeshShape& shape, std::span<const RankStep> ranks) {
  TRIREME_EXPECTS(static_cast<int>(ranks.size()) == shape.size(), "{} ranks for a mesh of {}",
                  ranks.size(), shape.size());
  // A job of one rank waits for nobody: what its comm stream does is its own work.
  RankStep alone;
  if (shape.size() == 1) {
    alone = ranks[0];
    alone.comm_wait = alone.reduce_wait = 0;
    ranks = {&alone, 1};
  }
  const int per_stage = shape.data * shape.tensor;
  std::vector<WorkOfStage> stages(static_cast<std::size_t>(shape.pipeline));
  std::vector<double> last_pass(static_cast<std::size_t>(per_stage));  // of each pipeline
  for (int r = 0; r < shape.size(); ++r) {
    const RankStep& rank = ranks[static_cast<std::size_t>(r)];
    WorkOfStage& stage = stages[static_cast<std::size_t>(r / per_stage)];
    if (stage.longest == nullptr || own_work(rank) > own_work(*stage.longest))
      stage.longest = &rank;
    stage.sum += own_work(rank);
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
    const double straggler = waits.core + waits.compute;
    const double compute = own_work(rank) - rank.data_wait;
    split.period += share * rank.period;
    split.compute += share * compute;
    split.data_wait += share * (rank.data_wait + waits.data);
    split.bubble += share * (rank.bubble + tail);
    split.straggler += share * straggler;
    split.exposed_comm += share * (rank.comm_wait - tail - waits.data - straggler);
    split.between_steps += share * (rank.period - rank.step);
    split.forward += share * rank.forward;
    split.backward += share * rank.backward;
    split.optimizer += share * rank.optimizer;
    split.other += share * (compute - rank.forward - rank.backward - rank.optimizer);
    split.core_wait += share * rank.core_wait;
    split.core_straggler += share * waits.core;
    split.reduce += share * rank.reduce;
    split.reduce_wait += share * rank.reduce_wait;
    if (const double more = own_work(rank) - stage.sum / per_stage; more > excess) {
      excess = more;
      split.slowest_rank = r;
    }
  }
  return split;
}

SlowRanks slow_ranks(const MeshShape& shape, std::span<const RankStep> sums) {
  TRIREME_EXPECTS(static_cast<int>(sums.size()) == shape.size(), "{} ranks for a mesh of {}",
                  sums.size(), shape.size());
  constexpr double min_share = 0.02;  // of the run's steps; less is noise
  const int per_stage = shape.data * shape.tensor;
  // The rank that exceeds the others most, where the excess is `part` of its value or more.
  const auto odd_one = [&](auto&& value, double part) {
    SlowRank odd;
    for (int r = 0; r < shape.size() && shape.size() > 1; ++r) {
      std::vector<double> others;
      for (int peer = 0; peer < shape.size(); ++peer) {
        if (peer != r && (per_stage == 1 || peer / per_stage == r / per_stage))
          others.push_back(value(sums[static_cast<std::size_t>(peer)]));
      }
      const RankStep& rank = sums[static_cast<std::size_t>(r)];
      const double own = value(rank);
      const double excess = own - usual_of_others(std::move(others));
      if (excess < part * own || excess < min_share * rank.step || 1e-3 * excess <= odd.seconds)
        continue;
      odd = {.rank = r, .seconds = 1e-3 * excess, .own_seconds = 1e-3 * own};
    }
    return odd;
  };
  SlowRanks slow;
  if (per_stage > 1) {
    slow.compute =
        odd_one([](const RankStep& r) { return own_work(r) - r.data_wait - r.core_wait; }, 0.05);
  }
  slow.data = odd_one([](const RankStep& r) { return r.data_wait; }, 0.5);
  slow.core = odd_one([](const RankStep& r) { return r.core_wait; }, 0.5);
  return slow;
}

std::string format_json(const StepSplit& split) {
  return fmt::format(
      "{{\"step\":{},\"period_ms\":{},\"compute_ms\":{},\"data_wait_ms\":{},\"bubble_ms\":{},"
      "\"straggler_ms\":{},\"exposed_comm_ms\":{},\"between_steps_ms\":{},\"slowest_rank\":{}}}\n",
      split.step, split.period, split.compute, split.data_wait, split.bubble, split.straggler,
      split.exposed_comm, split.between_steps, split.slowest_rank);
}

}  // namespace trireme
