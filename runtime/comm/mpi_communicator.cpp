// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/mpi_communicator.h"

#include <atomic>
#include <chrono>
#include <exception>

#include "runtime/comm/single.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
namespace {

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  TRIREME_MPI(MPI_Comm_dup(comm, &copy));
  return copy;
}

}  // namespace

struct MpiCommunicator::Shared {
  explicit Shared(MPI_Comm comm)
      : engine(comm),
        control(duplicate(comm)),
        control_transfers(1),
        counters(std::make_shared<CommCounters>()) {
    TRIREME_MPI(MPI_Comm_set_errhandler(control, MPI_ERRORS_RETURN));
  }
  ~Shared() {
    if (!abandoned && detail::mpi_is_up()) MPI_Comm_free(&control);
  }

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

  MpiEngine engine;
  MPI_Comm control;
  MpiTransfers control_transfers;
  std::shared_ptr<CommCounters> counters;
  bool abandoned = false;
  std::atomic<bool> busy = false;
};

MpiCommunicator::MpiCommunicator(MPI_Comm comm, std::string name)
    : MpiCommunicator(std::make_shared<Shared>(comm), std::move(name)) {}

MpiCommunicator::MpiCommunicator(std::shared_ptr<Shared> shared, std::string name)
    : Communicator(shared->engine.rank(), shared->engine.size(), std::move(name), shared->counters),
      shared_(std::move(shared)) {}

MpiCommunicator::~MpiCommunicator() {
  // Freeing is collective in name; a rank that unwinds does not count on its peers.
  if (std::uncaught_exceptions() > 0) {
    shared_->engine.abandon();
    shared_->abandoned = true;
  }
}

void MpiCommunicator::submit(Stream& stream, const Call& call) {
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

void MpiCommunicator::all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) {
  submit(stream, make_reduce_call(*this, Verb::all_reduce, in, out, op));
}

void MpiCommunicator::reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out,
                                     ReduceOp op) {
  submit(stream, make_reduce_call(*this, Verb::reduce_scatter, in, out, op));
}

void MpiCommunicator::all_gather(Stream& stream, const Tensor& in, const Tensor& out) {
  submit(stream, make_exchange_call(*this, Verb::all_gather, in, out));
}

void MpiCommunicator::all_to_all(Stream& stream, const Tensor& in, const Tensor& out) {
  submit(stream, make_exchange_call(*this, Verb::all_to_all, in, out));
}

void MpiCommunicator::broadcast(Stream& stream, const Tensor& data, int root) {
  submit(stream, make_peer_call(*this, Verb::broadcast, data, root));
}

void MpiCommunicator::send(Stream& stream, const Tensor& data, int to) {
  submit(stream, make_peer_call(*this, Verb::send, data, to));
}

void MpiCommunicator::recv(Stream& stream, const Tensor& data, int from) {
  submit(stream, make_peer_call(*this, Verb::recv, data, from));
}

void MpiCommunicator::group_begin() {
  TRIREME_EXPECTS(!in_group_, "group {}: group_begin inside a group", name());
  in_group_ = true;
  group_stream_ = nullptr;
}

void MpiCommunicator::group_end(Stream& stream) {
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

void MpiCommunicator::barrier() {
  shared_->control_transfers.barrier(shared_->control);
  shared_->control_transfers.wait_all();
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key, std::string name) {
  MPI_Comm part = MPI_COMM_NULL;
  TRIREME_MPI(MPI_Comm_split(shared_->control, color, key, &part));
  int ranks = 0;
  TRIREME_MPI(MPI_Comm_size(part, &ranks));
  if (ranks > 1) return std::make_unique<MpiCommunicator>(part, std::move(name));
  TRIREME_MPI(MPI_Comm_free(&part));
  return std::make_unique<SingleCommunicator>(std::move(name));
}

}  // namespace trireme
