// SPDX-License-Identifier: Apache-2.0
// The steps of a run on their way to the log and the console: each is written when every rank has
// told its times, two steps later, so that no step waits for it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/metrics.h"
#include "runtime/telemetry/verdict/rank_log.h"
#include "runtime/train/meters/time_split.h"

namespace trireme {

// Of the rank that waited longest; nothing where nobody waited for data. `by_rank` is not empty.
[[nodiscard]] std::optional<SlowRead> slow_read_of(std::span<const RankStep> by_rank);

class StepReports {
 public:
  // A step as its rank reports it; its times over all ranks are filled in later.
  struct Entry {
    StepMetrics metrics{};
    RankStep own{};
    std::optional<SkippedBatch> skipped{};  // follows its step's line
  };
  // On every rank; other ranks than 0 have no `sink` and no `ranks` (null). `keep_splits`: for
  // splits(), where steps take 200 bytes each.
  StepReports(const ProcessMesh& mesh, MetricsSink* sink, RankLog* ranks, bool keep_splits);

  // The step after the last; at most four may be unwritten.
  void add(Entry entry);
  // What every rank measured in the step that metrics count as `step`; those before it are written.
  void learn(std::int64_t step, std::span<const RankStep> by_rank);
  // All steps are written. Collective over the mesh; blocks the host where some are not.
  void finish();
  // What ranks.jsonl has not told yet is written there.
  void flush();
  // All steps are written, with this rank's times alone, for a run that ends with an error;
  // ranks.jsonl has no steps of which not all ranks have told. Not collective.
  void abandon() noexcept;

  // The split of every step as lines of JSON; rank 0's.
  [[nodiscard]] std::string splits() const;

 private:
  void write(Entry& entry, const StepSplit& split);

  const ProcessMesh& mesh_;
  MetricsSink* sink_;
  RankLog* ranks_;
  bool keep_splits_;
  std::array<Entry, 4> waiting_;  // the first `count_`, in order
  std::size_t count_ = 0;
  std::vector<Times> times_;  // of the step that is written, by rank
  std::vector<StepSplit> splits_;
};

}  // namespace trireme
