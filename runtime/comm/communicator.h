// SPDX-License-Identifier: Apache-2.0
// Collectives over a group of ranks. Calls only enqueue on `stream`; buffers must stay alive and
// unchanged until an event recorded after the call is reached. All ranks of a group issue the same
// calls in the same order. A group's calls use one stream, because calls on two streams have no
// common order. In-place use (in.data == out.data, or this rank's slice of it) is always allowed.
// The stream selects the transport: on a CPU stream host memory goes over MPI or TCP; on a cuda
// stream that GPU's memory goes over NCCL. A group of a cuda job takes both; host_stream.h has the
// stream for the host's own data (a config, a report). Back ends: Single (the identity),
// HostCommunicator (host memory), NcclCommunicator (GPU memory, and host memory through the group
// that it was made from). Decorators: Checked, Watched (watched.h).
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/comm_role.h"
#include "runtime/comm/timing/comm_stats.h"
#include "runtime/device/device.h"

namespace trireme {

class TraceLog;

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // Name of the group in messages: "world", "data", "tensor", "pipeline".
  [[nodiscard]] const std::string& name() const { return name_; }
  // The first `ranks` ranks contribute two leaves each to the summation tree (reduce.h), because
  // their inputs are sums of twice as many leaves; 0 (default): every rank one leaf. Must be the
  // same on every rank, before the first call. Groups split from this one do not inherit it.
  void set_doubled(int ranks);
  [[nodiscard]] int doubled() const { return doubled_; }
  // Calls and bytes per verb since the group was made. Thread-safe. Groups from split() have their
  // own counts.
  [[nodiscard]] CommStats stats() const { return counters_->read(); }

  // out = reduction of `in` over all ranks; the same bits on every rank. Over MPI and TCP, and
  // optionally over NCCL (nccl.h), sums follow one balanced binary tree over the ranks (reduce.h),
  // on which layout-independent results rest.
  void all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op);
  // `in` has size() equal slices; out = reduction of slice rank().
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op);
  // out = the ranks' `in`, concatenated; out.count() == size() * in.count().
  void all_gather(Stream& stream, const Tensor& in, const Tensor& out);
  // Slice j of `in` goes to rank j; slice i of `out` comes from rank i. Not in place.
  void all_to_all(Stream& stream, const Tensor& in, const Tensor& out);
  void broadcast(Stream& stream, const Tensor& data, int root);
  void send(Stream& stream, const Tensor& data, int to);
  void recv(Stream& stream, const Tensor& data, int from);
  // Issues the calls between begin and end together: paired sends and receives cannot deadlock, and
  // small collectives share one launch. All calls and group_end must name the same stream.
  void group_begin();
  void group_end(Stream& stream);
  // All verbs above end here; decorators forward calls (call.h) through it.
  void issue(Stream& stream, const Call& call);

  // Blocks the host until every rank has arrived.
  virtual void barrier() = 0;
  // Ranks with equal `color` form a group, ordered by `key`. Collective; blocks the host.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                            CommRole role = CommRole::control) = 0;
  // A group of the same ranks, only for calls on CPU streams. Collective; blocks the host.
  [[nodiscard]] virtual std::unique_ptr<Communicator> host_sibling(std::string name) {
    return split(0, rank_, std::move(name));
  }

 protected:
  Communicator(int rank, int size, std::string name)
      : Communicator(rank, size, std::move(name), std::make_shared<CommCounters>()) {}
  // For decorators, which share the counters of the communicator they wrap.
  Communicator(int rank, int size, std::string name, std::shared_ptr<CommCounters> counters)
      : rank_(rank), size_(size), name_(std::move(name)), counters_(std::move(counters)) {}
  // One checked call, outside a group or within one.
  virtual void submit(Stream& stream, const Call& call) = 0;
  // Ends a group that had at least one call; all were on `stream`.
  virtual void submit_group_end(Stream& stream) = 0;
  [[nodiscard]] bool in_group() const { return in_group_; }
  // Within submit(): whether this is the first call of its group.
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

// One rank: every collective copies. send/recv to itself pair up within a group.
[[nodiscard]] std::unique_ptr<Communicator> make_single_communicator();

// Before each collective, compares (sequence number, call, dtype, count, op, root) across ranks,
// and names both ranks and calls that disagree (ExitCode::communication). For debugging: adds a
// small exchange to every call.
[[nodiscard]] std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> inner);

}  // namespace trireme
