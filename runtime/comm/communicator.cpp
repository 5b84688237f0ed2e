// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/communicator.h"

#include "runtime/comm/call.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/timing/comm_stats.h"
#include "runtime/device/trace/trace_log.h"

namespace trireme {

void Communicator::set_doubled(int ranks) {
  TRIREME_EXPECTS(ranks >= 0 && ranks < size_, "group {}: {} of {} ranks doubled", name(), ranks,
                  size_);
  doubled_ = ranks;
}

void Communicator::all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) {
  issue(stream, make_reduce_call(*this, Verb::all_reduce, in, out, op));
}

void Communicator::reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out,
                                  ReduceOp op) {
  issue(stream, make_reduce_call(*this, Verb::reduce_scatter, in, out, op));
}

void Communicator::all_gather(Stream& stream, const Tensor& in, const Tensor& out) {
  issue(stream, make_exchange_call(*this, Verb::all_gather, in, out));
}

void Communicator::all_to_all(Stream& stream, const Tensor& in, const Tensor& out) {
  issue(stream, make_exchange_call(*this, Verb::all_to_all, in, out));
}

void Communicator::broadcast(Stream& stream, const Tensor& data, int root) {
  issue(stream, make_peer_call(*this, Verb::broadcast, data, root));
}

void Communicator::send(Stream& stream, const Tensor& data, int to) {
  issue(stream, make_peer_call(*this, Verb::send, data, to));
}

void Communicator::recv(Stream& stream, const Tensor& data, int from) {
  issue(stream, make_peer_call(*this, Verb::recv, data, from));
}

void Communicator::group_begin() {
  TRIREME_EXPECTS(!in_group_, "group {}: group_begin inside a group", name());
  in_group_ = true;
  group_stream_ = nullptr;
}

void Communicator::group_end(Stream& stream) {
  TRIREME_EXPECTS(in_group_, "group {}: group_end without group_begin", name());
  TRIREME_EXPECTS(group_stream_ == nullptr || group_stream_ == &stream,
                  "group_end of group {} has another stream than the calls before it", name());
  in_group_ = false;
  if (group_stream_ == nullptr) return;
  submit_group_end(stream);
  if (TraceLog* const trace = TraceLog::current()) trace->end_group(stream);
}

bool Communicator::begin_trace(TraceLog& trace, Stream& stream, const Call& call) const {
  const CommLabel label = current_comm_label();
  return trace.begin_call({.group = this,
                           .group_name = name(),
                           .group_rank = rank(),
                           .group_size = size(),
                           .verb = name_of(call.verb),
                           .peer = call.peer,
                           .bytes = static_cast<std::int64_t>(call.bytes())},
                          stream, label.text.data(), in_group_);
}

void Communicator::issue(Stream& stream, const Call& call) {
  TRIREME_EXPECTS(in_group_ || call.peer != rank() || call.verb == Verb::broadcast,
                  "{} to the own rank in group {} never ends outside group_begin/group_end",
                  name_of(call.verb), name());
  TRIREME_EXPECTS(!in_group_ || group_stream_ == nullptr || group_stream_ == &stream,
                  "the calls between group_begin and group_end of group {} use several streams",
                  name());
  TraceLog* const trace = TraceLog::current();
  // A group of one rank never waits.
  const bool traced = trace != nullptr && size_ > 1 && begin_trace(*trace, stream, call);
  submit(stream, call);
  if (traced) trace->end_call(stream, in_group_);
  if (in_group_) group_stream_ = &stream;
}

CommStats CommCounters::read() const {
  CommStats stats;
  for (std::size_t i = 0; i < verb_count; ++i) {
    stats.verbs[i].calls = counters_[i].calls.load(std::memory_order_relaxed);
    stats.verbs[i].bytes = counters_[i].bytes.load(std::memory_order_relaxed);
  }
  stats.seconds = static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
  stats.waiting_seconds = static_cast<double>(waiting_.load(std::memory_order_relaxed)) * 1e-9;
  return stats;
}

}  // namespace trireme
