// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: who waits for what, and whether anything still goes on. A job in which
// no rank has done anything for TRIREME_EMULATED_PATIENCE seconds (20; 0: never), while threads
// wait in the emulator, is a deadlock: every rank prints its waits and the job ends.
#pragma once

#include <string>

namespace trireme::emulated {

// The calling thread waits for what others must do, until the end of the scope.
class ScopedWait {
 public:
  explicit ScopedWait(std::string what);
  ~ScopedWait();
  ScopedWait(const ScopedWait&) = delete;
  ScopedWait& operator=(const ScopedWait&) = delete;
};

// The calling thread computes on the device, but for the waits inside.
class Computing {
 public:
  Computing();
  ~Computing();
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;
};

// Something was asked for or done.
void progress();

// From here on the ranks of this job watch each other. Each calls it, with a name that only this
// job has; release_job_name() once all have.
void join_job(const std::string& name, int rank, int ranks);
void release_job_name();

}  // namespace trireme::emulated
