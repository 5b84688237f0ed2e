// SPDX-License-Identifier: Apache-2.0
// Meters of a run besides those of the runtime (train/step/step_meter.h).
#pragma once

#include <functional>

#include "runtime/config/config.h"
#include "runtime/train/step/step_meter.h"

namespace trireme {

// RankStep::joules, gpu and slow_file.
class RankMeter final : public StepMeter {
 public:
  // Energy and state of the rank's GPU, or on CPUs, for local rank 0, the processors' energy; of
  // rank -1 nothing. Logs at debug level why there is no energy. `config` is resolved.
  RankMeter(int local_rank, const Config& config);
  void read(StepReport& report) override;

 private:
  std::function<double()> joules_;
  std::function<GpuState()> gpu_;
};

// A meter of a test program, or null (tests/launch/fixture).
[[nodiscard]] StepMeter* planted_meter();

}  // namespace trireme
