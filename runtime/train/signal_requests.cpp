// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/signal_requests.h"

#include <atomic>
#include <cerrno>
#include <csignal>

#include "runtime/base/error.h"
#include "runtime/comm/watched.h"

namespace trireme {
namespace {

std::atomic<std::int32_t> checkpoint_count{0};
std::atomic<bool> was_terminated{false};
static_assert(std::atomic<std::int32_t>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "handlers write them");

void on_checkpoint(int /*signal*/) {
  checkpoint_count.fetch_add(1, std::memory_order_relaxed);
}

// A launcher that ends the peers of a dead rank may give them long to end: they must
// not wait for it.
void on_terminate(int /*signal*/) {
  const int saved = errno;
  was_terminated.store(true, std::memory_order_relaxed);
  hurry_watched_waits();
  errno = saved;
}

struct sigaction install(int signal, void (*handler)(int)) {
  struct sigaction ours {};
  ours.sa_handler = handler;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  struct sigaction before {};
  if (sigaction(signal, &ours, &before) != 0)
    system_failed("sigaction", fmt::format("signal {}", signal));
  return before;
}

}  // namespace

struct SignalRequests::Handlers {
  struct sigaction checkpoint {
  }, terminate{};
};

SignalRequests::SignalRequests() : before_(std::make_unique<Handlers>()) {
  checkpoint_count = 0;
  was_terminated = false;
  before_->checkpoint = install(SIGUSR1, on_checkpoint);
  before_->terminate = install(SIGTERM, on_terminate);
}

SignalRequests::~SignalRequests() {
  sigaction(SIGUSR1, &before_->checkpoint, nullptr);
  sigaction(SIGTERM, &before_->terminate, nullptr);
}

std::int32_t SignalRequests::checkpoints() noexcept {
  return checkpoint_count.load(std::memory_order_relaxed);
}

bool SignalRequests::terminated() noexcept {
  return was_terminated.load(std::memory_order_relaxed);
}

}  // namespace trireme
