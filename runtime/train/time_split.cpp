// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/time_split.h"

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

struct StageWork {
  double longest = 0, sum = 0;
};

}  // namespace

StepSplit split_step(std::int64_t step, const MeshShape& shape, std::span<const RankStep> ranks) {
  TRIREME_EXPECTS(static_cast<int>(ranks.size()) == shape.size(), "{} ranks for a mesh of {}",
                  ranks.size(), shape.size());
  const int per_stage = shape.data * shape.tensor;
  std::vector<StageWork> stages(static_cast<std::size_t>(shape.pipeline));
  std::vector<double> last_pass(static_cast<std::size_t>(per_stage));  // of each pipeline
  for (int r = 0; r < shape.size(); ++r) {
    const RankStep& rank = ranks[static_cast<std::size_t>(r)];
    StageWork& stage = stages[static_cast<std::size_t>(r / per_stage)];
    stage.longest = std::max(stage.longest, own_work(rank));
    stage.sum += own_work(rank);
    double& last = last_pass[static_cast<std::size_t>(r % per_stage)];
    last = std::max(last, rank.before_reduce);
  }
  StepSplit split{.step = step};
  const double share = 1.0 / shape.size();
  double excess = -1;
  for (int r = 0; r < shape.size(); ++r) {
    const RankStep& rank = ranks[static_cast<std::size_t>(r)];
    const StageWork& stage = stages[static_cast<std::size_t>(r / per_stage)];
    const double tail = std::min(
        rank.comm_wait, last_pass[static_cast<std::size_t>(r % per_stage)] - rank.before_reduce);
    const double straggler = std::min(rank.comm_wait - tail, stage.longest - own_work(rank));
    split.period += share * rank.period;
    split.compute += share * (own_work(rank) - rank.data_wait);
    split.data_wait += share * rank.data_wait;
    split.bubble += share * (rank.bubble + tail);
    split.straggler += share * straggler;
    split.exposed_comm += share * (rank.comm_wait - tail - straggler);
    split.between_steps += share * (rank.period - rank.step);
    if (const double more = own_work(rank) - stage.sum / per_stage; more > excess) {
      excess = more;
      split.slowest_rank = r;
    }
  }
  return split;
}

std::string format_json(const StepSplit& split) {
  return fmt::format(
      "{{\"step\":{},\"period_ms\":{},\"compute_ms\":{},\"data_wait_ms\":{},\"bubble_ms\":{},"
      "\"straggler_ms\":{},\"exposed_comm_ms\":{},\"between_steps_ms\":{},\"slowest_rank\":{}}}\n",
      split.step, split.period, split.compute, split.data_wait, split.bubble, split.straggler,
      split.exposed_comm, split.between_steps, split.slowest_rank);
}

}  // namespace trireme
