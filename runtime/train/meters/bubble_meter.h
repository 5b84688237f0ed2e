// SPDX-License-Identifier: Apache-2.0
// Compares the pipeline's idle time with what its schedule promises.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/parallel/pipeline_runner.h"

namespace trireme {

// Idle shares of all stages together, 0..1, of the time from the pipeline's first computation of a
// step to its last.
struct BubbleReport {
  double measured = 0;   // 1 - computing / (stages * time)
  double predicted = 0;  // the schedule with each stage's mean times
  double ideal = 0;      // the schedule with equal stages
  // What else these times would have done, as parts of the pipeline's time now (1: the same): the
  // zero-bubble schedule, with both parts of a backward alike, and micro-batches of half the size,
  // each in half the time. 0 where there is no such schedule.
  double zero_bubble = 0, half_micro_batches = 0;
  double span_ms = 0;  // of the pipeline's time in a step, mean
};

class BubbleMeter {
 public:
  explicit BubbleMeter(const PipelineRunner& runner);

  // Takes in a step whose work is done. The first is left out: it warms up.
  void add(std::int64_t step);
  // Collective over `pipeline`; blocks the host.
  [[nodiscard]] BubbleReport report(Communicator& pipeline) const;

 private:
  const PipelineRunner& runner_;
  std::vector<StageTimes> sums_;  // by chunk
  double span_ = 0;
  std::int64_t micro_batches_ = 0, steps_ = 0;
};

}  // namespace trireme
