// SPDX-License-Identifier: Apache-2.0
// How long this process's communication threads were ready to run and had no core, as Linux's
// scheduler counts it (second value of /proc/PID/task/TID/schedstat, see the kernel's
// Documentation/scheduler/sched-stats.rst).
#pragma once

#include <vector>

#include "runtime/base/file.h"

namespace trireme {

class CoreWaits {
 public:
  // Milliseconds of all of them since they began; 0 where the kernel does not tell. The threads are
  // looked for at the first call, which streams must have started before.
  [[nodiscard]] double milliseconds();

 private:
  void find_threads();

  bool looked_ = false;
  std::vector<FileDescriptor> threads_;
};

}  // namespace trireme
