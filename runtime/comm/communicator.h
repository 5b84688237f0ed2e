// SPDX-License-Identifier: Apache-2.0
// Collectives over a group of ranks. Every call only enqueues on `stream`; buffers must stay alive
// and untouched until an event recorded after the call is reached. All ranks of a group issue the
// same calls in the same order; calls in flight on two streams at once have no common order, so a
// group's calls go to one stream. In-place use (in.data == out.data, or the own slice of it) is
// allowed everywhere.
// The stream chooses who carries a call: on a CPU stream, memory of the host goes over MPI or TCP;
// on a cuda stream, memory of that GPU goes over NCCL. A group of a cuda job takes both;
// host_stream.h has the stream for what the host itself has to tell (a config, a report). Back
// ends: Single (the identity), HostCommunicator (host memory), NcclCommunicator (GPU memory, and
// the host's through the group that it was made from). Decorators: Checked, Watched (watched.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/timing/comm_stats.h"
#include "runtime/device/device.h"

namespace trireme {

struct Call;
class TraceLog;

enum class ReduceOp : std::uint8_t { sum, max, min };

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // Name of the group in messages: "world", "data", "tensor", "pipeline".
  [[nodiscard]] const std::string& name() const { return name_; }
  // The first `ranks` ranks stand for two leaves each of the tree that sums follow (reduce.h), for
  // they bring the sum of twice what the others do; with 0, and before this is called, all are
  // alike. The same on every rank, before the first call; groups made of this one know nothing of
  // it.
  void set_doubled(int ranks);
  [[nodiscard]] int doubled() const { return doubled_; }
  // Calls and bytes since the group was made, per verb. Thread-safe; a group that split() makes
  // counts its own.
  [[nodiscard]] CommStats stats() const { return counters_->read(); }

  // out = reduction of `in` over all ranks; the same bits on every rank. Over MPI and TCP, and over
  // NCCL where asked for (nccl.h), sums follow one balanced binary tree over the ranks (reduce.h),
  // which reproducible layouts build on.
  void all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op);
  // `in` has size() equal slices; out = reduction of slice rank().
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op);
  // out = the ranks' `in` one after another; out.count() == size() * in.count().
  void all_gather(Stream& stream, const Tensor& in, const Tensor& out);
  // Slice j of `in` goes to rank j; slice i of `out` comes from rank i. Not in place.
  void all_to_all(Stream& stream, const Tensor& in, const Tensor& out);
  void broadcast(Stream& stream, const Tensor& data, int root);
  void send(Stream& stream, const Tensor& data, int to);
  void recv(Stream& stream, const Tensor& data, int from);
  // Calls between begin and end are issued together: none waits for another, so paired sends and
  // receives cannot deadlock and small collectives share one launch. The group is one unit of the
  // stream, which all of its calls and group_end name.
  void group_begin();
  void group_end(Stream& stream);
  // What the verbs above end in, and how a decorator hands a call (call.h) on.
  void issue(Stream& stream, const Call& call);

  // Blocks the host until every rank has arrived.
  virtual void barrier() = 0;
  // Ranks with equal `color` form a group, ordered by `key`. Collective; blocks the host.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key,
                                                            std::string name) = 0;
  // A group of the same ranks for calls on CPU streams only. Collective; blocks the host.
  [[nodiscard]] virtual std::unique_ptr<Communicator> host_sibling(std::string name) {
    return split(0, rank_, std::move(name));
  }

 protected:
  Communicator(int rank, int size, std::string name)
      : Communicator(rank, size, std::move(name), std::make_shared<CommCounters>()) {}
  // For decorators, which share the counters of what they wrap.
  Communicator(int rank, int size, std::string name, std::shared_ptr<CommCounters> counters)
      : rank_(rank), size_(size), name_(std::move(name)), counters_(std::move(counters)) {}
  // One checked call, outside a group or within one.
  virtual void submit(Stream& stream, const Call& call) = 0;
  // The group has ended; it had at least one call, and all were on `stream`.
  virtual void submit_group_end(Stream& stream) = 0;
  [[nodiscard]] bool in_group() const { return in_group_; }
  // Within submit(): whether the call is the first of its group.
  [[nodiscard]] bool starts_group() const { return in_group_ && group_stream_ == nullptr; }
  [[nodiscard]] CommCounters& counters() const { return *counters_; }
  [[nodiscard]] static const std::shared_ptr<CommCounters>& counters_of(const Communicator& other) {
    return other.counters_;
  }

 private:
  [[nodiscard]] bool begin_trace(TraceLog& trace, Stream& stream, const Call& call) const;

  int rank_;
  int size_;
  std::string name_;
  int doubled_ = 0;
  std::shared_ptr<CommCounters> counters_;
  bool in_group_ = false;
  Stream* group_stream_ = nullptr;  // of the group's calls so far
};

// The identity: one rank, every collective a copy. send/recv to oneself pair up within a group.
[[nodiscard]] std::unique_ptr<Communicator> make_single_communicator();

// Compares (sequence number, call, dtype, count, op, root) across ranks before each collective and
// names both ranks and calls that disagree (ExitCode::communication). For debugging: it adds a
// small exchange to every call.
[[nodiscard]] std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> inner);

}  // namespace trireme
