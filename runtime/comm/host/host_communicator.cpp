// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/host_communicator.h"

#include <atomic>
#include <chrono>
#include <exception>

#include "runtime/comm/dry.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
struct HostCommunicator::Shared {
  explicit Shared(std::unique_ptr<Transfers> transfers)
      : engine(std::move(transfers)),
        control(engine.transfers().duplicate()),
        counters(std::make_shared<CommCounters>()) {}

  // Runs `action` of the engine and records its time.
  template <typename Action>
  void timed(Action action) {
    const auto start = std::chrono::steady_clock::now();
    action();
    const auto spent = std::chrono::steady_clock::now() - start;
    counters->add_nanoseconds(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count()));
    counters->add_waiting(static_cast<std::uint64_t>(engine.take_waited().count()));
  }

  // Two concurrent streams would mix their messages: an error is better than wrong numbers.
  void enter() {
    TRIREME_EXPECTS(!busy.exchange(true, std::memory_order_acquire),
                    "two streams use a communicator at the same time, or an earlier call failed");
  }
  void leave() { busy.store(false, std::memory_order_release); }

  HostEngine engine;
  std::unique_ptr<Transfers> control;
  std::shared_ptr<CommCounters> counters;
  std::atomic<bool> busy = false;
};

HostCommunicator::HostCommunicator(std::unique_ptr<Transfers> transfers, std::string name)
    : HostCommunicator(std::make_shared<Shared>(std::move(transfers)), std::move(name)) {}

HostCommunicator::HostCommunicator(std::shared_ptr<Shared> shared, std::string name)
    : Communicator(shared->engine.rank(), shared->engine.size(), std::move(name), shared->counters),
      shared_(std::move(shared)) {}

HostCommunicator::~HostCommunicator() {
  // Freeing is collective, but a rank that unwinds cannot rely on its peers.
  if (std::uncaught_exceptions() > 0) {
    shared_->engine.transfers().abandon();
    shared_->control->abandon();
  }
}

void HostCommunicator::submit(Stream& stream, const Call& call) {
  counters().add_call(call.verb, call.bytes());
  if (!in_group()) {
    enqueue(stream, [shared = shared_, call] {
      shared->enter();
      shared->timed([&] {
        shared->engine.start(call);
        shared->engine.finish();
      });
      shared->leave();
    });
    return;
  }
  enqueue(stream, [shared = shared_, call, first = starts_group()] {
    if (first) shared->enter();
    shared->timed([&] { shared->engine.start(call); });
  });
}

void HostCommunicator::submit_group_end(Stream& stream) {
  enqueue(stream, [shared = shared_] {
    shared->timed([&] { shared->engine.finish(); });
    shared->leave();
  });
}

void HostCommunicator::barrier() {
  shared_->control->barrier();
  shared_->control->wait_all();
}

std::unique_ptr<Communicator> HostCommunicator::split(int color, int key, std::string name,
                                                      CommRole /*role*/) {
  auto part = shared_->control->split(color, key);
  if (part->size() > 1) return std::make_unique<HostCommunicator>(std::move(part), std::move(name));
  return std::make_unique<SingleCommunicator>(std::move(name));
}

}  // namespace trireme
