// SPDX-License-Identifier: Apache-2.0
// Compares the pipeline's idle time with its schedule's.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/parallel/pipeline_runner.h"
#include "runtime/parallel/schedule_timeline.h"

namespace trireme {

// Idle shares of all stages together, 0..1, from the pipeline's first computation of a step to its
// last.
struct BubbleReport {
  double measured = 0;   // 1 - computing / (stages * time)
  double predicted = 0;  // the schedule with each stage's mean times
  double ideal = 0;      // the schedule with equal stages
};

class BubbleMeter {
 public:
  explicit BubbleMeter(const PipelineRunner& runner);

  // Adds a finished step. Skips the first, which warms up.
  void add(std::int64_t step);
  // Collective over `pipeline`; blocks the host.
  [[nodiscard]] BubbleReport report(Communicator& pipeline) const;

 private:
  const PipelineRunner& runner_;
  std::vector<StageTimes> sums_;  // by chunk
  double span_ = 0;
  std::int64_t micro_batches_ = 0;
};

}  // namespace trireme
