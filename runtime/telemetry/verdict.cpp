// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// What a run loses by one cause.
struct Loss {
  Trouble trouble;
  std::string what;
  double seconds;
};

std::string name_of(const SlowRank& slow, const RunSummary& summary) {
  const auto rank = static_cast<std::size_t>(slow.rank);
  return rank < summary.hosts.size() ? fmt::format("rank {} on {}", rank, summary.hosts[rank])
                                     : fmt::format("rank {}", rank);
}

// The means over the ranks count a straggler's own excess with `compute`: without it the run would
// be shorter by the whole of it.
Loss straggler(const RunSummary& summary) {
  const StepTotals& totals = summary.totals;
  const double waits = 1e-3 * (totals.straggler_ms - totals.core_straggler_ms);
  const SlowRank& slow = summary.slow.compute;
  if (slow.rank < 0) return {Trouble::straggler, "waits for ranks that are slower by turns", waits};
  return {Trouble::straggler, "straggler, " + name_of(slow, summary) + ",",
          std::max(waits, slow.seconds)};
}

// Where ranks share cores and want for them, one that waits for a message waits for a rank without
// a core: the two cannot be told apart.
Loss no_core(const RunSummary& summary, const RunFacts& facts) {
  constexpr double wanting = 0.05;  // of the steps
  const StepTotals& totals = summary.totals;
  const double own = totals.core_wait_ms + totals.core_straggler_ms;
  const double seconds = 1e-3 * own;
  const SlowRank& slow = summary.slow.core;
  if (share_cores(facts)) {
    if (own < wanting * totals.step_ms) return {Trouble::no_core, "waits for cores", seconds};
    const double peers =
        totals.exposed_comm_ms + totals.bubble_ms + totals.straggler_ms - totals.core_straggler_ms;
    return {Trouble::no_core, "waits for cores and for ranks that had none",
            seconds + 1e-3 * peers};
  }
  if (slow.rank < 0) return {Trouble::no_core, "waits for cores", seconds};
  return {Trouble::no_core_of_rank,
          fmt::format("straggler, {}, which had no core for {:.1f} s,", name_of(slow, summary),
                      slow.own_seconds),
          seconds};
}

Loss data_wait(const RunSummary& summary) {
  const double seconds = 1e-3 * summary.totals.data_wait_ms;
  const SlowRank& slow = summary.slow.data;
  if (slow.rank < 0) return {Trouble::data_wait, "data wait", seconds};
  return {Trouble::data_wait_of_rank, "data wait of " + name_of(slow, summary), seconds};
}

double other_seconds(const RunSummary& summary) {
  const StepTotals& totals = summary.totals;
  const double between = summary.wall_seconds - 1e-3 * totals.step_ms - summary.evaluation_seconds;
  return std::max(between, 0.0) + 1e-3 * totals.other_ms;
}

}  // namespace

void StepTotals::add(const StepMetrics& metrics) {
  ++steps;
  items += metrics.items;
  loss += metrics.loss;
  step_ms += metrics.step_ms;
  data_wait_ms += metrics.data_wait_ms;
  exposed_comm_ms += metrics.exposed_comm_ms;
  straggler_ms += metrics.straggler_ms;
  bubble_ms += metrics.bubble_ms;
  other_ms += metrics.other_ms;
  core_wait_ms += metrics.core_wait_ms;
  core_straggler_ms += metrics.core_straggler_ms;
  reduce_ms += metrics.reduce_ms;
  reduce_wait_ms += metrics.reduce_wait_ms;
}

std::vector<TimeShare> shares_of(const RunSummary& summary) {
  const StepTotals& totals = summary.totals;
  const double compute = totals.step_ms - totals.data_wait_ms - totals.exposed_comm_ms -
                         totals.straggler_ms - totals.bubble_ms - totals.other_ms -
                         totals.core_wait_ms;
  return {
      {"compute", "compute", 1e-3 * std::max(compute, 0.0)},
      {"exposed communication", "comm", 1e-3 * totals.exposed_comm_ms},
      {"slower ranks", "slower ranks", 1e-3 * (totals.straggler_ms - totals.core_straggler_ms),
       false},
      {"waits for cores", "cores", 1e-3 * (totals.core_wait_ms + totals.core_straggler_ms), false},
      {"pipeline bubble", "bubble", 1e-3 * totals.bubble_ms, false},
      {"data wait", "data", 1e-3 * totals.data_wait_ms},
      {"evaluation", "evaluation", summary.evaluation_seconds},
      {"other", "other", other_seconds(summary)},
  };
}

std::string verdict(const RunSummary& summary, const RunFacts& facts) {
  constexpr double worth_naming = 5;  // percent
  const StepTotals& totals = summary.totals;
  const Loss losses[] = {
      {Trouble::exposed_comm, "exposed communication", 1e-3 * totals.exposed_comm_ms},
      straggler(summary),
      no_core(summary, facts),
      {Trouble::bubble, "pipeline bubble", 1e-3 * totals.bubble_ms},
      data_wait(summary),
      {Trouble::evaluation, "evaluation", summary.evaluation_seconds},
      {Trouble::other, "other work", other_seconds(summary)},
  };
  const Loss& worst = *std::ranges::max_element(losses, {}, &Loss::seconds);
  const double part = percent(worst.seconds, summary.wall_seconds);
  if (part < worth_naming) {
    return fmt::format("verdict: bound by computation; no other part takes more than {:.1f} %",
                       std::ceil(part * 10) / 10);
  }
  const double rest = std::max(summary.wall_seconds - worst.seconds, 1e-9);
  const std::string advice = advice_for(worst.trouble, facts);
  return fmt::format(
      "verdict: without its {} ({:.1f} %) this run would be {:.2f} times as fast{}{}", worst.what,
      part, summary.wall_seconds / rest, advice.empty() ? "" : "; ", advice);
}

}  // namespace trireme
