// SPDX-License-Identifier: Apache-2.0
// Whether cores are waited for, and what else runs on them, as Linux counts it: the one check of
// the machine behind a run's verdict, `trireme bench`, `scale` and `doctor`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace trireme {

// How long a thread was ready to run and had no core: the second value of schedstat (the kernel's
// Documentation/scheduler/sched-stats.rst).
class RunDelay {
 public:
  // `task`: the thread's directory in /proc.
  explicit RunDelay(const std::string& task);
  // Since it began; 0 where the kernel does not tell.
  [[nodiscard]] double milliseconds() const;

 private:
  FileDescriptor file_;
};

// Means over some time.
struct MachineLoad {
  int cores = 0;      // that this process may use
  double busy = 0;    // of them, with whatever
  double stolen = 0;  // of them, by the hypervisor for other machines
  double own = 0;     // cores that this process used; see also load_of_host()
  double waited = 0;  // 0..1 of the time: the thread that asks was ready and had no core

  // Cores that neither this process nor nobody used.
  [[nodiscard]] double others() const;
  // Whether others took so much that times measured beside them say little: a twentieth of the
  // cores, or a fiftieth of this thread's time.
  [[nodiscard]] bool disturbs() const;
};

// "other programs used 1.8 of 2 cores, and cores were waited for in 34 % of the time"
[[nodiscard]] std::string describe(const MachineLoad& load);

// Counts from its making on; zeros where /proc does not tell.
class LoadMeter {
 public:
  LoadMeter();
  [[nodiscard]] MachineLoad read() const;

 private:
  struct Count {
    double busy = 0, stolen = 0, own = 0;  // seconds
    double waited_ms = 0;
  };
  [[nodiscard]] Count count() const;

  std::vector<int> cores_;
  RunDelay here_{"/proc/thread-self"};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Count first_;
};

}  // namespace trireme
