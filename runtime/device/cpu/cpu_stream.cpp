// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_stream.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <exception>
#include <system_error>

#include "runtime/device/cpu/cpu_event.h"

namespace trireme {
namespace {

// First version of the kernel's struct sched_attr; headers of C libraries differ.
struct SchedulingAttributes {
  std::uint32_t size = 48, policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

// A thread that sends wakes beside a computation. Since Linux 6.6 that computation runs on for the
// rest of its slice, milliseconds, unless the waking thread asks for shorter slices (since 6.12;
// other versions ignore it). A hint: if it is refused, the neighbour waits longer.
void ask_for_short_slices() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0U) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  constexpr std::uint64_t shortest = 100'000;  // ns
  attributes.runtime = shortest;
  syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

// Only the main thread handles signals: the worker starts with all of them blocked.
std::thread start_worker(const std::shared_ptr<StreamCore>& core, StreamKind kind) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread worker([core, kind] {
      if (kind == StreamKind::link) ask_for_short_slices();
      core->run();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(worker.native_handle(),
                       kind == StreamKind::copy ? "trireme-copy" : "trireme-comm");
    return worker;
  } catch (const std::system_error&) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace

CpuStream::CpuStream(Device& device, StreamKind kind) : device_(device), kind_(kind) {
  if (kind == StreamKind::compute) return;
  core_ = std::make_shared<StreamCore>();
  worker_ = start_worker(core_, kind);
}

CpuStream::~CpuStream() {
  if (core_ == nullptr) return;
  if (std::uncaught_exceptions() > 0) core_->cancel();
  core_->close();
  worker_.join();
}

CpuStream& CpuStream::of(Stream& stream) {
  auto* const cpu = dynamic_cast<CpuStream*>(&stream);
  TRIREME_EXPECTS(cpu != nullptr, "host work needs a CPU stream, got a stream of device {}",
                  name_of(stream.device().type()));
  return *cpu;
}

void CpuStream::record(Event& event) {
  CpuEvent::of(event).record_on(*this);
}

void CpuStream::wait(Event& event) {
  CpuEvent::of(event).make_wait(*this);
}

void CpuStream::synchronize() {
  if (core_ != nullptr) core_->await_all();
}

}  // namespace trireme
