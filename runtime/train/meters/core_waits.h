// SPDX-License-Identifier: Apache-2.0
// Which of a step's waits were waits for a core. On a CPU the thread that trains computes, sleeps
// while it waits for messages or data, or is ready to run and has no core; the kernel counts the
// last (telemetry/machine_load.h), also for the threads that communicate and that read data.
#pragma once

#include <optional>
#include <vector>

#include "runtime/telemetry/machine_load.h"

namespace trireme {

// Milliseconds without a core since the threads began; 0 where the kernel does not tell.
struct CoreWaitCount {
  double here = 0;      // the thread that asks
  double messages = 0;  // threads that communicate, all together
  double data = 0;      // a thread of the loader on average
};

class CoreWaits {
 public:
  // The threads are looked for at the first call, which streams and loader must have started
  // before. Later calls come from the same thread.
  [[nodiscard]] CoreWaitCount read();

 private:
  void find_threads();

  std::optional<RunDelay> here_;
  std::vector<RunDelay> messages_, data_;
};

// What one step measured of it, in milliseconds.
struct CoreTimes {
  double cpu = 0;       // the thread that trains computed
  double waits = 0;     // it was ready and had no core
  double between = 0;   // likewise, since the step before
  double reduce = 0;    // threads that communicate had none while gradients were reduced
  double messages = 0;  // and in the rest of the step
  double data = 0;      // a thread of the loader had none
};

// The times that a step stood still, by what for.
struct StandstillTimes {
  double stalls = 0;  // collectives in passes and update
  double reduce = 0;  // the reduction of gradients
  double bubble = 0;  // neighbours in the pipeline
  double data = 0;

  [[nodiscard]] double sum() const { return stalls + reduce + bubble + data; }
};

// Of `still`, and of the step's own work: what was a wait for a core of this rank. Waits for
// neighbours stay what they are: threads poll in them for a stage that has not come so far.
struct LackOfCores {
  double work = 0, stalls = 0, reduce = 0, data = 0;

  [[nodiscard]] double messages() const { return stalls + reduce; }
};
[[nodiscard]] LackOfCores lack_of_cores(double step, const StandstillTimes& still,
                                        const CoreTimes& core);

}  // namespace trireme
