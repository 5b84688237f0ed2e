// SPDX-License-Identifier: Apache-2.0
// Separates waits for a core from other waits of a step. On a CPU the training thread computes,
// sleeps while it waits for messages or data, or is runnable without a core; the kernel counts the
// last (telemetry/machine_load.h), also for communication and loader threads.
#pragma once

#include <optional>
#include <vector>

#include "runtime/telemetry/machine_load.h"

namespace trireme {

// Milliseconds without a core since the threads began; 0 if the kernel does not report them.
struct CoreWaitCount {
  double here = 0;      // the calling thread
  double messages = 0;  // communication threads, summed
  double data = 0;      // loader threads, mean
};

class CoreWaits {
 public:
  // The first call finds the threads, so streams and loader must have started them. Later calls
  // must come from the same thread.
  [[nodiscard]] CoreWaitCount read();

 private:
  void find_threads();

  std::optional<RunDelay> here_;
  std::vector<RunDelay> messages_, data_;
};

// Measurements of one step, in milliseconds.
struct CoreTimes {
  double cpu = 0;       // the training thread computed
  double waits = 0;     // it was runnable without a core
  double between = 0;   // the same, since the previous step
  double reduce = 0;    // communication threads had no core during gradient reduction
  double messages = 0;  // and in the rest of the step
  double data = 0;      // a loader thread had none
};

// Times that a step waited, by reason.
struct StandstillTimes {
  double stalls = 0;  // collectives in passes and update
  double reduce = 0;  // the reduction of gradients
  double bubble = 0;  // neighbours in the pipeline
  double data = 0;

  [[nodiscard]] double sum() const { return stalls + reduce + bubble + data; }
};

// The parts of `still` and of the step's own work that were waits for a core of this rank. Waits
// for neighbours stay unchanged: threads poll in them for a stage that has not come.
struct LackOfCores {
  double work = 0, stalls = 0, reduce = 0, data = 0;

  [[nodiscard]] double messages() const { return stalls + reduce; }
};
[[nodiscard]] LackOfCores lack_of_cores(double step, const StandstillTimes& still,
                                        const CoreTimes& core);

}  // namespace trireme
