// SPDX-License-Identifier: Apache-2.0
// ranks.jsonl of one run; rank 0 only. A line for each start, then one for each window of steps: as
// long as 10 s or 0.5 % of what the start has taken so far, whichever is longer, so that the
// longest run has a file of some thousand lines. Errors are LineFile's.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "runtime/telemetry/lines/line_file.h"
#include "runtime/telemetry/verdict/run_fold.h"

namespace trireme {

class RankLog {
 public:
  // A run that goes on after start.step steps (`again`) keeps the windows up to them.
  RankLog(std::string path, RunStart start, bool again);

  // The next step: its metrics over all ranks, and its times by rank.
  void step(const StepMetrics& metrics, std::span<const Times> ranks);
  // Writes the open window, where there is one: before a checkpoint, and where a run ends.
  void flush();
  // The run has done all its steps; flushes too.
  void end(const RunEnding& end);
  // Of the windows that are written.
  [[nodiscard]] const RunFold& fold() const { return fold_; }

 private:
  LineFile file_;
  RunFold fold_;
  RankWindow open_;
  double written_ms_ = 0;
};

}  // namespace trireme
