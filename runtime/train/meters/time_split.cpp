// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/time_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/telemetry/bottleneck/rank_times.h"

namespace trireme {
namespace {

// Time within the step in which a rank holds up others.
double own_work(const Times& rank) {
  using enum TimePart;
  return rank[step] - rank[comm_wait] - rank[bubble];
}

// The total: ranks end a step together, with the same gradient norm.
double held_up_by(const Times& rank) {
  return rank[TimePart::period] - rank[TimePart::step] + own_work(rank);
}

// Arrival time at collectives. A rank that waited for its pipeline neighbours delays its peers as
// much as one that works.
double arrival(const Times& rank) {
  return held_up_by(rank) + rank[TimePart::bubble];
}

// Splits a wait of `rank` in collectives for the longest rank of its stage by that rank's causes;
// `compute`: none.
Times behind(const Times& rank, const Times& longest, double wait_in_collectives) {
  using enum TimePart;
  Times waits;
  const double excess = arrival(longest) - arrival(rank);
  const double wait = std::min(wait_in_collectives, excess);
  if (!(wait > 0)) return waits;
  double left = excess;
  for (const TimePart cause : {data_wait, core_wait, checkpoint, bubble}) {
    const double taken = std::clamp(longest[cause] - rank[cause], 0.0, left);
    left -= taken;
    waits[cause] = wait * taken / excess;
  }
  waits[compute] = wait * left / excess;
  return waits;
}

// A thread that polls for messages needs a core too. Lacking one before the peer has arrived costs
// nothing: that time is a wait for the peer.
std::vector<Times> without_idle_core_waits(std::span<const Times> ranks, int per_stage) {
  using enum TimePart;
  std::vector<Times> settled(ranks.begin(), ranks.end());
  const auto came = [](const Times& rank) { return arrival(rank) - rank[comm_core_wait]; };
  const auto waits = [](const Times& rank) { return rank[message_wait]; };
  const auto size = static_cast<std::size_t>(per_stage);
  for (std::size_t first = 0; first < settled.size(); first += size) {
    const std::span stage = std::span(settled).subspan(first, size);
    const double last = came(*std::ranges::max_element(stage, {}, came));
    const double least_wait = waits(*std::ranges::min_element(stage, {}, waits));
    for (Times& rank : stage) {
      const double behind_peers = std::max(last - came(rank), waits(rank) - least_wait);
      const double waited =
          rank[comm_wait] + rank[comm_core_wait];  // the time that counts as waiting
      const double left = waited - std::min(waited, behind_peers);
      const double idle = std::max(0.0, rank[comm_core_wait] - left);
      if (idle == 0) continue;
      const double longer = rank[comm_wait] > 0 ? (rank[comm_wait] + idle) / rank[comm_wait] : 1;
      for (const TimePart part : {reduce_wait, tensor_comm, gather_comm, expert_comm})
        rank[part] *= longer;
      for (const TimePart part : {comm_core_wait, other_core_wait, core_wait})
        rank[part] -= idle;
      rank[comm_wait] += idle;
    }
  }
  return settled;
}

// The contribution of `rank` to the means: waits in collectives by cause, waits for messages by
// purpose. `tail`: its wait for the last pass of another stage.
Times by_causes(const Times& rank, const Times& longest, double tail) {
  using enum TimePart;
  const Times waits = behind(rank, longest, rank[comm_wait] - tail);
  Times told = rank;
  told[between_steps] = rank[period] - rank[step];
  told[compute] = own_work(rank) - rank[data_wait];
  told[other] = told[compute] - rank[forward] - rank[backward] - rank[optimizer];
  told[data_wait] += waits[data_wait];
  told[bubble] += tail + waits[bubble];
  told[core_wait] += waits[core_wait];
  told[core_straggler] = waits[core_wait];
  told[checkpoint_straggler] = waits[checkpoint];
  told[straggler] = waits[core_wait] + waits[checkpoint] + waits[compute];
  told[exposed_comm] = rank[comm_wait] - tail - waits[data_wait] - waits[bubble] - told[straggler];
  told[reduce_comm] = rank[reduce_wait];
  for (const TimePart part : {tensor_comm, gather_comm, expert_comm, reduce_comm})
    told[part] *= rank[comm_wait] > 0 ? told[exposed_comm] / rank[comm_wait] : 0;
  return told;
}

struct WorkOfStage {
  const Times* longest = nullptr;
  double sum = 0;
};

struct Latest {
  std::size_t at = 0;
  double by = 0;  // than the others usually
};

// Among the ranks with the most micro-batches, for which the others wait anyway.
template <typename Arrival>
Latest latest(std::span<const Times> stage, Arrival arrival) {
  const auto given = [](const Times& rank) { return rank[TimePart::micro_batches]; };
  const double most = given(*std::ranges::max_element(stage, {}, given));
  std::vector<double> others;
  std::optional<Latest> last;
  for (std::size_t i = 0; i < stage.size(); ++i) {
    if (given(stage[i]) < most) continue;
    others.push_back(arrival(stage[i]));
    if (!last || others.back() > arrival(stage[last->at])) last = {.at = i};
  }
  if (others.size() < 2) return {};
  others.erase(std::ranges::max_element(others));
  last->by = arrival(stage[last->at]) - lower_median(std::move(others));
  return *last;
}

// By its own work, or else by messages later than its work explains.
void add_late_one(std::span<Times> sums, std::span<const Times> stage) {
  using enum TimePart;
  constexpr double worth_counting = 0.02;  // of the step
  Latest last = latest(stage, held_up_by);
  if (last.by < worth_counting * stage[last.at][period])
    last = latest(stage, [](const Times& rank) { return -rank[message_wait] - rank[bubble]; });
  if (last.by < worth_counting * stage[last.at][period]) return;
  sums[last.at] += Times{{late, last.by}, {late_steps, 1}};
}

}  // namespace

std::optional<double> joules_of(std::span<const RankStep> ranks) {
  double sum = 0;
  for (const RankStep& rank : ranks)
    sum += rank.joules;
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

StepSplit split_step(std::int64_t number, const MeshShape& shape, std::span<const Times> ranks) {
  using enum TimePart;
  TRIREME_EXPECTS(static_cast<int>(ranks.size()) == shape.size(), "{} ranks for a mesh of {}",
                  ranks.size(), shape.size());
  const int per_stage = shape.data * shape.tensor;
  std::vector<Times> settled = without_idle_core_waits(ranks, per_stage);
  // With one rank there are no waits: its comm stream's time is work.
  if (shape.size() == 1)
    for (const TimePart part :
         {comm_wait, reduce_wait, tensor_comm, gather_comm, expert_comm, expert_wait})
      settled[0][part] = 0;
  std::vector<WorkOfStage> stages(static_cast<std::size_t>(shape.pipeline));
  std::vector<double> last_pass(static_cast<std::size_t>(per_stage));  // of each pipeline
  for (int r = 0; r < shape.size(); ++r) {
    const Times& rank = settled[static_cast<std::size_t>(r)];
    WorkOfStage& stage = stages[static_cast<std::size_t>(r / per_stage)];
    if (stage.longest == nullptr || arrival(rank) > arrival(*stage.longest)) stage.longest = &rank;
    stage.sum += own_work(rank);
    double& last = last_pass[static_cast<std::size_t>(r % per_stage)];
    last = std::max(last, rank[before_reduce]);
  }
  StepSplit split{.step = number};
  double excess = -1;
  for (int r = 0; r < shape.size(); ++r) {
    const Times& rank = settled[static_cast<std::size_t>(r)];
    const WorkOfStage& stage = stages[static_cast<std::size_t>(r / per_stage)];
    const double tail = std::min(
        rank[comm_wait], last_pass[static_cast<std::size_t>(r % per_stage)] - rank[before_reduce]);
    split.times += by_causes(rank, *stage.longest, tail) * (1.0 / shape.size());
    if (const double more = own_work(rank) - stage.sum / per_stage; more > excess) {
      excess = more;
      split.slowest_rank = r;
    }
  }
  return split;
}

void add_to(std::span<Times> sums, const MeshShape& shape, std::span<const Times> ranks) {
  using enum TimePart;
  const int per_stage = shape.data * shape.tensor;
  const std::vector<Times> settled = without_idle_core_waits(ranks, per_stage);
  for (std::size_t r = 0; r < settled.size(); ++r) {
    Times rank = settled[r];
    rank[compute] = own_work(rank) - rank[data_wait] - (rank[core_wait] - rank[between_core_wait]);
    rank[between] = rank[period] - rank[step] - rank[between_core_wait];
    sums[r] += rank;
  }
  const auto size = static_cast<std::size_t>(per_stage);
  for (std::size_t first = 0; first < settled.size() && size > 1; first += size)
    add_late_one(sums.subspan(first, size), std::span(settled).subspan(first, size));
}

std::string format_json(const StepSplit& split) {
  std::string text = fmt::format("{{\"step\":{}", split.step);
  for (const TimeRow& row : times_in_order(time_use::split))
    text += fmt::format(",\"{}\":{}", row.key, split.times[row.part]);
  return text + fmt::format(",\"slowest_rank\":{}}}\n", split.slowest_rank);
}

}  // namespace trireme
