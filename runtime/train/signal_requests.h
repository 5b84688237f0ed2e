// SPDX-License-Identifier: Apache-2.0
// SIGUSR1, SIGTERM and SIGINT as counts that a loop looks at, from as early as possible to the end
// of a run.
#pragma once

#include <cstdint>
#include <memory>

namespace trireme {

// Of a job that a second SIGINT has ended: 128 + the signal, as a shell has it.
inline constexpr int interrupted_exit = 130;

// The first SIGINT asks for a stop and says so on rank 0; a second one ends the job at once, with
// interrupted_exit. Where SIGINT was ignored when the process began (a script's background job) it
// stays ignored.
class SignalRequests {
 public:
  // Takes the signals over; the destructor gives them back. One at a time in a process, made before
  // the threads that must not get them.
  SignalRequests();
  ~SignalRequests();
  SignalRequests(const SignalRequests&) = delete;
  SignalRequests& operator=(const SignalRequests&) = delete;

  // Since the signals were taken over.
  [[nodiscard]] static std::int32_t checkpoints() noexcept;  // SIGUSR1
  [[nodiscard]] static bool terminated() noexcept;           // SIGTERM
  [[nodiscard]] static bool interrupted() noexcept;          // SIGINT

 private:
  struct Handlers;
  std::unique_ptr<Handlers> before_;
};

}  // namespace trireme
