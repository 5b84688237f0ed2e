// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/watch_signal.h"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "runtime/comm/watchdog/watched.h"

namespace trireme {
namespace {

// Never destroyed: a handler may run until the end of the process.
sem_t* semaphore() {
  static sem_t instance;
  [[maybe_unused]] static const int made = sem_init(&instance, 0, 0);
  return &instance;
}

std::atomic<WatchSignal::Request> requested{WatchSignal::Request::none};
static_assert(std::atomic<WatchSignal::Request>::is_always_lock_free);
std::atomic<bool> hurried{false};
bool installed = false;

void on_terminate(int /*signal*/) {
  const int saved = errno;
  WatchSignal::request(WatchSignal::Request::terminate);
  errno = saved;
}

}  // namespace

void WatchSignal::install() {
  static_cast<void>(semaphore());
  struct sigaction now {};
  if (sigaction(SIGTERM, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  struct sigaction ours {};
  ours.sa_handler = on_terminate;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  installed = sigaction(SIGTERM, &ours, nullptr) == 0;
}

void WatchSignal::uninstall() {
  struct sigaction now {};
  if (!installed || sigaction(SIGTERM, nullptr, &now) != 0) return;
  installed = false;
  if (now.sa_handler == on_terminate) std::signal(SIGTERM, SIG_DFL);
  // A request after the watchdog's last poll.
  if (take() == Request::terminate) end_process();
}

void WatchSignal::wait(std::chrono::nanoseconds pause) {
  constexpr long billion = 1'000'000'000;
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const long nanoseconds = until.tv_nsec + static_cast<long>(pause.count());
  until.tv_sec += nanoseconds / billion;
  until.tv_nsec = nanoseconds % billion;
  while (sem_clockwait(semaphore(), CLOCK_MONOTONIC, &until) != 0 && errno == EINTR) {
  }
}

void WatchSignal::wake() noexcept {
  sem_post(semaphore());
}

void WatchSignal::request(Request request) noexcept {
  if (request == Request::hurry) hurried.store(true, std::memory_order_relaxed);
  requested.store(request, std::memory_order_relaxed);
  wake();
}

WatchSignal::Request WatchSignal::take() noexcept {
  return requested.exchange(Request::none, std::memory_order_relaxed);
}

bool WatchSignal::told_to_stop() noexcept {
  return hurried.load(std::memory_order_relaxed);
}

void WatchSignal::end_process() noexcept {
  std::signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
}

void request_collectives_dump() noexcept {
  WatchSignal::request(WatchSignal::Request::dump);
}

void hurry_watched_waits() noexcept {
  WatchSignal::request(WatchSignal::Request::hurry);
}

}  // namespace trireme
