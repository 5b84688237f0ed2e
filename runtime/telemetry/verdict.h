// SPDX-License-Identifier: Apache-2.0
// Where the seconds of a finished run went over all ranks, what would have been gained without the
// largest loss, and what to do about it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/telemetry/advice.h"
#include "runtime/telemetry/metrics.h"
#include "runtime/telemetry/verdict/rank_times.h"
#include "runtime/telemetry/verdict/trials.h"

namespace trireme {

// Steps summed since some point.
struct StepTotals {
  std::int64_t steps = 0;
  std::int64_t items = 0;
  double loss = 0;  // sum of the steps' losses
  Times times{};
  // Of the steps whose energy is known.
  double joules = 0;
  std::int64_t joule_items = 0;

  [[nodiscard]] double operator[](TimePart part) const { return times[part]; }
  void add(const StepMetrics& metrics);
  void add(const StepTotals& more);
};

// What the means over the ranks say of the parts that add up to all of a run's time
// (time_use::of_run); the others stay. Each wait counts once: behind a rank that had no core, or
// that still stood for a checkpoint, with what made it wait.
[[nodiscard]] Times parts_of(const Times& times);

// Idle shares of a pipeline, 0..1: as measured, and as its schedule has them with the stages'
// times.
struct BubbleShares {
  double measured = 0, predicted = 0;
};

// What ran on a host while the run did: means in cores.
struct HostLoad {
  std::string host{};
  int cores = 0;
  double others = 0, stolen = 0;  // by other programs, by other machines of the hypervisor
};

[[nodiscard]] RankMesh mesh_of(const RunFacts& facts);

// From which step on the losses of a run are not finite.
struct Divergence {
  std::int64_t since = 0;  // step; 0: the last loss was finite

  void add(std::int64_t step, double loss);
};

// `wall` covers the loop from the first batch to the last evaluation.
struct RunSummary {
  StepTotals totals;
  double wall_seconds = 0;
  double evaluation_seconds = 0;        // of the wall time
  double checkpoint_after_seconds = 0;  // of the wall time, behind the last step
  std::uint64_t peak_memory_bytes = 0;  // resident set of the rank that used most
  SlowRanks slow{};
  std::vector<Times> ranks{};            // sums of the steps, by rank; may be empty
  double decoded_again = 0;              // of the chunks that rank 0 decoded, the share
  std::vector<Trial> trials{};           // those that the run brought along
  std::optional<BubbleShares> bubble{};  // where it was measured
  std::vector<std::string> hosts{};      // by rank; may be empty
  Divergence divergence{};
  std::optional<HostLoad> load{};  // where other programs used most
};

// 0 of nothing.
[[nodiscard]] constexpr double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0.0;
}

// Seconds of the parts of time_use::of_run, which add up to the wall time. Means over the ranks.
[[nodiscard]] Times seconds_of(const RunSummary& summary);
// What took how long, how ranks differ, who is late, what the worst part costs and what to do about
// it: lines without a newline at the end. The last but one, or the last, begins with "verdict: ";
// behind it stands a line "try: " where a setting is known that would gain.
[[nodiscard]] std::string verdict_text(const RunSummary& summary, const RunFacts& facts);
// The line of the verdict.
[[nodiscard]] std::string verdict(const RunSummary& summary, const RunFacts& facts);

}  // namespace trireme
