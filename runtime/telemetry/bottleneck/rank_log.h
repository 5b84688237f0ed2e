// SPDX-License-Identifier: Apache-2.0
// ranks.jsonl of a run; rank 0 only. A line per start, then one per window of steps: 10 s or 0.5 %
// of the start's duration so far, whichever is longer, so that the longest run has some thousand
// lines. Errors are LineFile's.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "runtime/telemetry/bottleneck/run_fold.h"
#include "runtime/telemetry/lines/line_file.h"

namespace trireme {

class RankLog {
 public:
  // A run continued after start.step steps (`again`) keeps the windows up to them.
  RankLog(std::string path, RunStart start, bool again);

  // The next step: its metrics over all ranks, and its times per rank.
  void step(const StepMetrics& metrics, std::span<const Times> ranks);
  // Writes the open window, if any: before a checkpoint, and at the end of a run.
  void flush();
  // The run has done all its steps; flushes too.
  void end(const RunEnding& end);
  // Over the written windows, of earlier starts too.
  [[nodiscard]] const RunFold& fold() const { return fold_; }

 private:
  RunFold fold_;
  LineFile file_;
  RankWindow open_;
  double written_ms_ = 0;
};

}  // namespace trireme
