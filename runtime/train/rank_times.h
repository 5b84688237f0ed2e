// SPDX-License-Identifier: Apache-2.0
// Every step as every rank measured it, kept on each rank and brought together at the end, so that
// no step waits for it.
#pragma once

#include <string>
#include <vector>

#include "runtime/train/step_engine.h"
#include "runtime/train/time_split.h"

namespace trireme {

class RankTimes {
 public:
  // Keeps 48 bytes for each of `steps` steps, taken now for up to a million of them.
  explicit RankTimes(std::int64_t steps);

  // The next step, of an engine with StepOptions::time_stalls.
  void add(const StepReport& report);
  // The split of every step as lines of JSON; the text is rank 0's. Collective over the mesh;
  // blocks the host.
  [[nodiscard]] std::string split(const ProcessMesh& mesh) const;

 private:
  std::vector<RankStep> steps_;
  std::int64_t last_step_ = -1;
};

}  // namespace trireme
