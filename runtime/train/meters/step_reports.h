// SPDX-License-Identifier: Apache-2.0
// The steps of a run on their way to log and console: each is written when all ranks have reported
// its times, two steps later, so no step waits for it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/bottleneck/rank_log.h"
#include "runtime/telemetry/metrics.h"
#include "runtime/train/meters/time_split.h"

namespace trireme {

// The slow read of the rank that waited longest; empty if no rank waited for data. `by_rank` is not
// empty.
[[nodiscard]] std::optional<SlowRead> slow_read_of(std::span<const RankStep> by_rank);

// Sets TimePart::expert_wait of each rank: the rows that fullest ranks had more, times a row's mean
// time, and at most its waits for rows.
void add_waits_for_experts(std::span<Times> times, std::span<const RankStep> by_rank);
// Nothing if no rows of experts travel.
[[nodiscard]] std::optional<ExpertTraffic> traffic_of(std::span<const RankStep> by_rank);

class StepReports {
 public:
  // A step as reported by its rank; times over all ranks are filled in later.
  struct Entry {
    StepMetrics metrics{};
    RankStep own{};
    std::optional<SkippedBatch> skipped{};  // follows its step's line
  };
  // On every rank; ranks other than 0 have no `sink` and no `ranks` (null). `keep_splits`: for
  // splits(), at 300 bytes per step.
  StepReports(const ProcessMesh& mesh, MetricsSink* sink, RankLog* ranks, bool keep_splits);

  // The step after the last; at most four may be unwritten.
  void add(Entry entry);
  // All ranks' measurements of the step that metrics count as `step`; earlier ones are written.
  void learn(std::int64_t step, std::span<const RankStep> by_rank);
  // Writes all steps. Collective over the mesh; blocks the host if some are not written.
  void finish();
  // Writes missing lines to ranks.jsonl.
  void flush();
  // Writes all steps with this rank's times alone, for a run that ends with an error; ranks.jsonl
  // gets no steps that some ranks have not reported. Not collective.
  void abandon() noexcept;

  // The split of every step as JSON lines; on rank 0.
  [[nodiscard]] std::string splits() const;

 private:
  void write(Entry& entry, const StepSplit& split);

  const ProcessMesh& mesh_;
  MetricsSink* sink_;
  RankLog* ranks_;
  bool keep_splits_;
  std::array<Entry, 4> waiting_;  // the first `count_`, in order
  std::size_t count_ = 0;
  std::vector<Times> times_;  // of the step being written, by rank
  std::vector<StepSplit> splits_;
};

}  // namespace trireme
