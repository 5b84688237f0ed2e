// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/host_communicator.h"

#include <atomic>
#include <chrono>
#include <exception>

#include "runtime/comm/single.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
struct HostCommunicator::Shared {
  explicit Shared(std::unique_ptr<Transfers> transfers)
      : engine(std::move(transfers)),
        control(engine.transfers().duplicate()),
        counters(std::make_shared<CommCounters>()) {}

  // Runs `action` of the engine and counts its time.
  template <typename Action>
  void timed(Action action) {
    const auto start = std::chrono::steady_clock::now();
    action();
    const auto spent = std::chrono::steady_clock::now() - start;
    counters->add_nanoseconds(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count()));
  }

  // Two streams at once would mix their messages: better an error than wrong numbers.
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
  // Freeing is collective in name; a rank that unwinds does not count on its peers.
  if (std::uncaught_exceptions() > 0) {
    shared_->engine.transfers().abandon();
    shared_->control->abandon();
  }
}

void HostCommunicator::submit(Stream& stream, const Call& call) {
  if (!in_group_) refuse_message_to_self(*this, call);
  counters().add_call(call.verb, call.bytes());
  if (!in_group_) {
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
  TRIREME_EXPECTS(group_stream_ == nullptr || group_stream_ == &stream,
                  "the calls between group_begin and group_end of group {} use several streams",
                  name());
  const bool first = group_stream_ == nullptr;
  group_stream_ = &stream;
  enqueue(stream, [shared = shared_, call, first] {
    if (first) shared->enter();
    shared->timed([&] { shared->engine.start(call); });
  });
}

void HostCommunicator::all_reduce(Stream& stream, const Tensor& in, const Tensor& out,
                                  ReduceOp op) {
  submit(stream, make_reduce_call(*this, Verb::all_reduce, in, out, op));
}

void HostCommunicator::reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out,
                                      ReduceOp op) {
  submit(stream, make_reduce_call(*this, Verb::reduce_scatter, in, out, op));
}

void HostCommunicator::all_gather(Stream& stream, const Tensor& in, const Tensor& out) {
  submit(stream, make_exchange_call(*this, Verb::all_gather, in, out));
}

void HostCommunicator::all_to_all(Stream& stream, const Tensor& in, const Tensor& out) {
  submit(stream, make_exchange_call(*this, Verb::all_to_all, in, out));
}

void HostCommunicator::broadcast(Stream& stream, const Tensor& data, int root) {
  submit(stream, make_peer_call(*this, Verb::broadcast, data, root));
}

void HostCommunicator::send(Stream& stream, const Tensor& data, int to) {
  submit(stream, make_peer_call(*this, Verb::send, data, to));
}

void HostCommunicator::recv(Stream& stream, const Tensor& data, int from) {
  submit(stream, make_peer_call(*this, Verb::recv, data, from));
}

void HostCommunicator::group_begin() {
  TRIREME_EXPECTS(!in_group_, "group {}: group_begin inside a group", name());
  in_group_ = true;
  group_stream_ = nullptr;
}

void HostCommunicator::group_end(Stream& stream) {
  TRIREME_EXPECTS(in_group_, "group {}: group_end without group_begin", name());
  TRIREME_EXPECTS(group_stream_ == nullptr || group_stream_ == &stream,
                  "group_end of group {} names another stream than its calls", name());
  in_group_ = false;
  if (group_stream_ == nullptr) return;
  enqueue(stream, [shared = shared_] {
    shared->timed([&] { shared->engine.finish(); });
    shared->leave();
  });
}

void HostCommunicator::barrier() {
  shared_->control->barrier();
  shared_->control->wait_all();
}

std::unique_ptr<Communicator> HostCommunicator::split(int color, int key, std::string name) {
  auto part = shared_->control->split(color, key);
  if (part->size() > 1) return std::make_unique<HostCommunicator>(std::move(part), std::move(name));
  return std::make_unique<SingleCommunicator>(std::move(name));
}

}  // namespace trireme
