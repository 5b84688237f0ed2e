// SPDX-License-Identifier: Apache-2.0
// Settings worth trying, with what they would gain as far as this run's own times tell: a part that
// is measured comes less often, or once for more samples, or falls away; the planner's come with
// the run. What neither can tell (faster storage) is the table of advice.h.
#pragma once

#include <string>
#include <vector>

#include "runtime/telemetry/advice.h"

namespace trireme {

struct RunSummary;

struct Trial {
  std::string setting;  // "train.eval_every=800"
  double gain = 0;      // 0..1, of the wall time, or of the time for each sample
  bool of_sample = false;
  std::string unless{};  // what the prediction does not know: "if memory allows"; may be empty
};

// Those that the run brought along and those made here, the best first; none below 2 %.
[[nodiscard]] std::vector<Trial> trials_of(const RunSummary& summary, const RunFacts& facts);
// "try: A (predicted -12.0 % time), B (...)"; empty where there is none.
[[nodiscard]] std::string try_line(const RunSummary& summary, const RunFacts& facts);

}  // namespace trireme
