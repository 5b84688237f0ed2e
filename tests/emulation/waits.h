// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: deadlock detection. If no rank makes progress for
// TRIREME_EMULATED_PATIENCE seconds (20; 0: never) while threads wait in the emulator, every rank
// prints its waits and the job ends.
#pragma once

#include <string>

namespace trireme::emulated {

// Until the end of the scope the calling thread waits for others.
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

// Starts the ranks' mutual watch. Each rank calls it, with a name unique to the job;
// release_job_name() once all have.
void join_job(const std::string& name, int rank, int ranks);
void release_job_name();

}  // namespace trireme::emulated
