// SPDX-License-Identifier: Apache-2.0
// SIGUSR1, SIGTERM and SIGINT as counts that a loop polls, from as early as possible to the end of
// a run.
#pragma once

#include <cstdint>
#include <memory>

namespace trireme {

// Exit code of a job ended by a second SIGINT: 128 + the signal, as in a shell.
inline constexpr int interrupted_exit = 130;

// The first SIGINT requests a stop and reports it on rank 0; a second one ends the job at once,
// with interrupted_exit. If SIGINT was ignored at the start of the process (a script's background
// job) it stays ignored.
class SignalRequests {
 public:
  // Installs the handlers; the destructor restores the previous ones. One at a time per process,
  // made before the threads that must not get the signals.
  SignalRequests();
  ~SignalRequests();
  SignalRequests(const SignalRequests&) = delete;
  SignalRequests& operator=(const SignalRequests&) = delete;

  // Since the handlers were installed.
  [[nodiscard]] static std::int32_t checkpoints() noexcept;  // SIGUSR1
  [[nodiscard]] static bool terminated() noexcept;           // SIGTERM
  [[nodiscard]] static bool interrupted() noexcept;          // SIGINT

 private:
  struct Handlers;
  std::unique_ptr<Handlers> before_;
};

}  // namespace trireme
