// SPDX-License-Identifier: Apache-2.0

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/comm/host/end_of_job.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/nccl/nccl_handle.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;

constexpr auto pause_between_looks = 100ms;
constexpr auto abort_patience = 1s;

struct Monitor {
  std::timed_mutex mutex;  // guards all members below
  std::condition_variable_any changed;
  std::vector<NcclHandle*> handles;
  bool stop = false;
  std::thread thread;
};

// Never destroyed: abort_job() may come at any time.
Monitor& monitor() {
  static auto* const instance = new Monitor;
  return *instance;
}

void abort_all() noexcept {
  const std::unique_lock lock(monitor().mutex, abort_patience);
  if (!lock.owns_lock()) return;
  for (NcclHandle* const handle : monitor().handles)
    handle->abort();
}

void look_for_errors() {
  Monitor& self = monitor();
  std::unique_lock lock(self.mutex);
  while (!self.changed.wait_for(lock, pause_between_looks, [&] { return self.stop; })) {
    for (NcclHandle* const handle : self.handles) {
      const auto error = handle->asynchronous_error();
      if (!error) continue;
      lock.unlock();
      print_error(*error);
      abort_job(static_cast<int>(ExitCode::communication));
    }
  }
}

std::thread start_thread() {
  // Only the main thread handles signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(look_for_errors);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "trireme-nccl");
  return thread;
}

}  // namespace

void NcclMonitor::add(NcclHandle& handle) {
  Monitor& self = monitor();
  const std::lock_guard lock(self.mutex);
  self.handles.push_back(&handle);
  if (self.thread.joinable()) return;
  set_abort_hook(abort_all);
  self.stop = false;
  self.thread = start_thread();
}

void NcclMonitor::remove(NcclHandle& handle) {
  Monitor& self = monitor();
  std::thread ended;
  {
    const std::lock_guard lock(self.mutex);
    if (std::erase(self.handles, &handle) == 0 || !self.handles.empty()) return;
    self.stop = true;
    ended = std::move(self.thread);
  }
  self.changed.notify_all();
  ended.join();
}

}  // namespace trireme
