// SPDX-License-Identifier: Apache-2.0
// The time split of a finished run over all ranks, the gain of removing the largest loss, and
// advice.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/telemetry/advice.h"
#include "runtime/telemetry/bottleneck/rank_times.h"
#include "runtime/telemetry/bottleneck/trials.h"
#include "runtime/telemetry/metrics.h"

namespace trireme {

// Sums over steps.
struct StepTotals {
  std::int64_t steps = 0;
  std::int64_t items = 0;
  double loss = 0;  // sum of the steps' losses
  Times times{};
  // Over steps with known energy.
  double joules = 0;
  std::int64_t joule_items = 0;

  [[nodiscard]] double operator[](TimePart part) const { return times[part]; }
  void add(const StepMetrics& metrics);
  void add(const StepTotals& more);
};

// The parts of the means over ranks that add up to a run's whole time (time_use::of_run); others
// are unchanged. Each wait counts once: waiting for a rank without a core, or for one that writes a
// checkpoint, counts as that cause.
[[nodiscard]] Times parts_of(const Times& times);

// Idle shares of a pipeline, 0..1: as measured, and as scheduled with the stages' times.
struct BubbleShares {
  double measured = 0, predicted = 0;
};

// The load on a host during the run: means in cores.
struct HostLoad {
  std::string host{};
  int cores = 0;
  double others = 0, stolen = 0;  // of other processes, and of other machines on the hypervisor
};

[[nodiscard]] RankMesh mesh_of(const RunFacts& facts);

// The step from which the losses of a run are not finite.
struct Divergence {
  std::int64_t since = 0;  // step; 0: the last loss was finite

  void add(std::int64_t step, double loss);
};

// `wall` is the loop from the first batch to the last evaluation.
struct RunSummary {
  StepTotals totals;
  std::int64_t starts = 1;  // that the summary covers
  double wall_seconds = 0;
  double evaluation_seconds = 0;        // part of the wall time
  double checkpoint_after_seconds = 0;  // part of the wall time, after the last step
  std::uint64_t peak_memory_bytes = 0;  // resident set of the rank that used most
  SlowRanks slow{};
  std::vector<Times> ranks{};            // sums of the steps, by rank; may be empty
  double decoded_again = 0;              // share of the chunks that rank 0 decoded
  std::vector<Trial> trials{};           // those found by the run
  std::optional<BubbleShares> bubble{};  // if measured
  std::vector<std::string> hosts{};      // by rank; may be empty
  Divergence divergence{};
  std::optional<HostLoad> load{};  // of the host where other processes used most
};

// 0 if `whole` is 0.
[[nodiscard]] constexpr double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0.0;
}

// Seconds of the parts of time_use::of_run, which add up to the wall time. Means over the ranks.
[[nodiscard]] Times seconds_of(const RunSummary& summary);
// At most four lines, without a final newline: "time ...", differences between ranks,
// "bottleneck: ..." with its share, cause and advice, and "suggestion: ..." if a setting is known
// to gain.
[[nodiscard]] std::string end_of_run_text(const RunSummary& summary, const RunFacts& facts);
// The line of the bottleneck.
[[nodiscard]] std::string bottleneck_text(const RunSummary& summary, const RunFacts& facts);

}  // namespace trireme
