// SPDX-License-Identifier: Apache-2.0
// Whether threads wait for cores, and the other load, from Linux' counters: the load check of a
// run's bottleneck analysis, `trireme bench`, `scale` and `doctor`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace trireme {

// Time that a thread was runnable without a core: the second value of schedstat (the kernel's
// Documentation/scheduler/sched-stats.rst).
class RunDelay {
 public:
  // `task`: the thread's directory in /proc.
  explicit RunDelay(const std::string& task);
  // Since the thread began; 0 if the kernel does not report it.
  [[nodiscard]] double milliseconds() const;

 private:
  FileDescriptor file_;
};

// Means over a period.
struct MachineLoad {
  int cores = 0;      // usable by this process
  double busy = 0;    // of them, by anything
  double stolen = 0;  // of them, by the hypervisor for other machines
  double own = 0;     // cores that this process used; see also load_of_host()
  double waited = 0;  // fraction 0..1 of the time: the calling thread was runnable without a core

  // Cores used by other processes.
  [[nodiscard]] double others() const;
  // Whether other load makes measured times unreliable: a twentieth of the cores, or a fiftieth of
  // this thread's time.
  [[nodiscard]] bool disturbs() const;
};

// "other processes used 1.8 of 2 cores, and cores were waited for in 34 % of the time"
[[nodiscard]] std::string describe(const MachineLoad& load);

// Counts from its construction on; zeros if /proc does not report them.
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
