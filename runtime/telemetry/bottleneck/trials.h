// SPDX-License-Identifier: Apache-2.0
// Settings worth trying, with gains predicted from this run's own times: a measured part occurs
// less often, serves more samples, or is removed; the planner's come with the run. What neither can
// predict (faster storage) is in the table of advice.h.
#pragma once

#include <string>
#include <vector>

#include "runtime/telemetry/advice.h"

namespace trireme {

struct RunSummary;

struct Trial {
  std::string setting;  // "train.eval_every=800"
  double gain = 0;      // 0..1, of the wall time, or of the time per sample
  bool of_sample = false;
  std::string
      unless{};  // a condition that the prediction ignores: "if memory allows"; may be empty
};

// The run's trials and those found here, best first; none below 2 %.
[[nodiscard]] std::vector<Trial> trials_of(const RunSummary& summary, const RunFacts& facts);
// "suggestion: A (predicted -12.0 % time), B (...)"; empty if there are none.
[[nodiscard]] std::string try_line(const RunSummary& summary, const RunFacts& facts);

}  // namespace trireme
