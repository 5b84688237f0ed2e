// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/signal_requests.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/watchdog/watched.h"

namespace trireme {
namespace {

std::atomic<std::int32_t> checkpoint_count{0};
std::atomic<bool> was_terminated{false}, was_interrupted{false};
static_assert(std::atomic<std::int32_t>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "handlers write them");

sigset_t taken_over() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGTERM);
  struct sigaction interrupt {};
  if (sigaction(SIGINT, nullptr, &interrupt) == 0 && interrupt.sa_handler != SIG_IGN)
    sigaddset(&signals, SIGINT);
  return signals;
}

void interrupt() {
  if (was_interrupted.exchange(true)) {
    print_error("interrupted a second time: the job ends without a checkpoint");
    abort_job(interrupted_exit);
  }
  log::get("train").info(
      "interrupted: the run writes a checkpoint after its next step and stops; interrupt it again "
      "to end it at once");
}

void note(int signal) {
  if (signal == SIGUSR1) checkpoint_count.fetch_add(1, std::memory_order_relaxed);
  if (signal == SIGINT) interrupt();
  if (signal == SIGTERM) was_terminated.store(true, std::memory_order_relaxed);
  if (signal != SIGTERM && signal != SIGINT) return;
  // A launcher may give the peers of a dead rank a long time to end; they must not wait for it.
  hurry_watched_waits();
}

}  // namespace

// The signals are blocked in this thread and its children, and a dedicated thread takes them: a
// handler would run on the stacks of computing threads, even inside generated library code.
struct SignalRequests::Handlers {
  sigset_t before{};
  std::atomic<bool> ending = false;
  std::thread thread;
};

SignalRequests::SignalRequests() : before_(std::make_unique<Handlers>()) {
  std::signal(SIGUSR1, SIG_DFL);  // it may be ignored from before
  checkpoint_count = 0;
  was_terminated = false;
  was_interrupted = false;
  const sigset_t signals = taken_over();
  pthread_sigmask(SIG_BLOCK, &signals, &before_->before);
  before_->thread = std::thread([this] {
    const sigset_t awaited = taken_over();
    const timespec pause{0, 20'000'000};
    while (!before_->ending)
      note(sigtimedwait(&awaited, nullptr, &pause));
  });
}

SignalRequests::~SignalRequests() {
  before_->ending = true;
  before_->thread.join();
  // A launcher may pass USR1 on late: a finished run needs no checkpoint, and USR1 must not kill
  // it.
  std::signal(SIGUSR1, SIG_IGN);
  pthread_sigmask(SIG_SETMASK, &before_->before, nullptr);
}

std::int32_t SignalRequests::checkpoints() noexcept {
  return checkpoint_count.load(std::memory_order_relaxed);
}

bool SignalRequests::terminated() noexcept {
  return was_terminated.load(std::memory_order_relaxed);
}

bool SignalRequests::interrupted() noexcept {
  return was_interrupted.load(std::memory_order_relaxed);
}

}  // namespace trireme
