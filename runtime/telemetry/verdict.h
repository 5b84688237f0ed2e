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
  double step_ms = 0;
  double data_wait_ms = 0;
  double exposed_comm_ms = 0;
  double straggler_ms = 0;
  double bubble_ms = 0;
  double other_ms = 0;
  double core_wait_ms = 0;
  double other_core_wait_ms = 0;
  double core_straggler_ms = 0;
  double reduce_ms = 0;
  double reduce_wait_ms = 0;
  double tensor_comm_ms = 0;
  double gather_comm_ms = 0;
  double reduce_comm_ms = 0;
  double between_ms = 0;
  double checkpoint_ms = 0;
  double evaluation_ms = 0;
  double checkpoint_straggler_ms = 0;
  double forward_ms = 0;
  double backward_ms = 0;
  double optimizer_ms = 0;
  // Of the steps whose energy is known.
  double joules = 0;
  std::int64_t joule_items = 0;

  void add(const StepMetrics& metrics);
  void add(const StepTotals& more);
};

// Where time went, over all ranks: parts that add up to the steps and what lies between them.
// Milliseconds where they are made from StepTotals.
struct TimeParts {
  double compute = 0;       // with a core
  double exposed_comm = 0;  // messages that no computation hid
  double straggler = 0;     // behind ranks whose own work took longer
  double core_wait = 0;     // processes had no core, or stood behind one that had none
  double bubble = 0;
  double data_wait = 0;   // own data, or behind a rank that waited for its own
  double checkpoint = 0;  // steps stood still for one, or behind a rank that still did
  double evaluation = 0;
  double other = 0;
};

// Each of them once: the key of ranks.jsonl, the names of people.
struct TimePart {
  const char* key;
  std::string_view name, short_name;
  double TimeParts::*member;
  bool always_shown = true;  // else only where it is not 0
};
// In the order in which they are told; compute comes first.
[[nodiscard]] std::span<const TimePart> time_parts();

[[nodiscard]] TimeParts parts_of(const StepTotals& totals);
// Totals that parts_of() takes apart in the same way.
[[nodiscard]] StepTotals totals_of(const TimeParts& parts, std::int64_t steps);

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
  std::vector<RankTimes> ranks{};        // sums of the steps, by rank; may be empty
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

// One way to spend a run's time.
struct TimeShare {
  std::string_view name;
  std::string_view short_name;
  double seconds = 0;
  bool always_shown = true;
};

// They add up to the wall time, in the order of time_parts(). Means over the ranks.
[[nodiscard]] std::vector<TimeShare> shares_of(const RunSummary& summary);
// What took how long, how ranks differ, who is late, what the worst part costs and what to do about
// it: lines without a newline at the end. The last but one, or the last, begins with "verdict: ";
// behind it stands a line "try: " where a setting is known that would gain.
[[nodiscard]] std::string verdict_text(const RunSummary& summary, const RunFacts& facts);
// The line of the verdict.
[[nodiscard]] std::string verdict(const RunSummary& summary, const RunFacts& facts);

}  // namespace trireme
