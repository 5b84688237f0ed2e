// SPDX-License-Identifier: Apache-2.0
// SIGUSR1 and SIGTERM as counts that a loop looks at, from as early as possible to the end of a
// run.
#pragma once

#include <cstdint>
#include <memory>

namespace trireme {

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

 private:
  struct Handlers;
  std::unique_ptr<Handlers> before_;
};

}  // namespace trireme
