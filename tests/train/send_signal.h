// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "runtime/train/signal_requests.h"

namespace trireme::test {

// To this process; returns once SignalRequests has seen it, or after five seconds.
inline void send_signal(int signal) {
  const auto seen = [signal] {
    if (signal == SIGTERM) return static_cast<int>(SignalRequests::terminated());
    if (signal == SIGINT) return static_cast<int>(SignalRequests::interrupted());
    return SignalRequests::checkpoints();
  };
  const int before = seen();
  ::kill(::getpid(), signal);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (seen() == before && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace trireme::test
