// SPDX-License-Identifier: Apache-2.0
// Converts the lines of ranks.jsonl to the summary for the bottleneck analysis, at any moment of a
// run and after it, however it ended:
//   RunFold fold;
//   for (line of ranks.jsonl) fold.line(line);
//   if (fold.steps() > 0) text = end_of_run_text(fold.whole(), fold.facts());
#pragma once

#include <string_view>
#include <vector>

#include "runtime/telemetry/bottleneck/rank_lines.h"

namespace trireme {

// Holds one window in memory.
class RunFold {
 public:
  void start(const RunStart& start);
  void add(const RankWindow& window);
  void end(const RunEnding& end);
  void take(const RankLine& line);
  // Adds a line; false if it is not valid in ranks.jsonl (incomplete, or of another version).
  bool line(std::string_view line);

  // In the last start so far.
  [[nodiscard]] std::int64_t steps() const { return totals_.steps; }
  [[nodiscard]] std::int64_t last_step() const { return last_step_; }
  [[nodiscard]] const RunFacts& facts() const { return start_.facts; }
  // Whether the run came to its end.
  [[nodiscard]] bool ended() const { return end_.has_value(); }
  // What ended it before its last step; "" for nothing.
  [[nodiscard]] std::string reached() const { return end_ ? end_->reached : ""; }
  // Before the end the wall time is that of the steps seen. Memory, losses and items are not in the
  // file and are 0.
  [[nodiscard]] RunSummary summary() const;
  // Of all starts, with the time between them; without ranks if starts had others. What the end
  // tells, such as the load and trials, is of the last start.
  [[nodiscard]] RunSummary whole() const;

 private:
  RunStart start_;
  bool began_ = false;
  StepTotals totals_;
  std::vector<Times> ranks_;
  std::optional<RunEnding> end_;
  std::int64_t last_step_ = 0;  // of the last window
  struct Earlier {
    RunSummary all{.totals = {}, .starts = 0};
    double until = 0;        // end of the last window before a start, in seconds since 1970
    bool same_ranks = true;  // as this start
  } earlier_;
};

}  // namespace trireme
