// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_stream.h"

#include <pthread.h>

#include <csignal>
#include <exception>
#include <system_error>

#include "runtime/device/cpu/cpu_event.h"

namespace trireme {
namespace {

// Signals belong to the main thread: the worker starts with all of them blocked.
std::thread start_worker(const std::shared_ptr<StreamCore>& core, const char* name) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread worker([core] { core->run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(worker.native_handle(), name);
    return worker;
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    library_failed("starting a stream's worker thread", error.what());
  }
}

}  // namespace

CpuStream::CpuStream(Device& device, StreamKind kind) : device_(device), kind_(kind) {
  if (kind == StreamKind::compute) return;
  core_ = std::make_shared<StreamCore>();
  worker_ = start_worker(core_, kind == StreamKind::comm ? "trireme-comm" : "trireme-copy");
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
