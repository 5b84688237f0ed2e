// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/single.h"

namespace trireme {
namespace {

constexpr std::size_t usual_group = 64;

}  // namespace

SingleCommunicator::SingleCommunicator(std::string name) : Communicator(0, 1, std::move(name)) {
  sends_.reserve(usual_group);
  recvs_.reserve(usual_group);
}

void SingleCommunicator::copy(Stream& stream, const Call& call) {
  counters().add_call(call.verb, call.bytes());
  stream.device().copy(stream, call.out, call.in, call.bytes());
}

void SingleCommunicator::all_reduce(Stream& stream, const Tensor& in, const Tensor& out,
                                    ReduceOp op) {
  copy(stream, make_reduce_call(*this, Verb::all_reduce, in, out, op));
}

void SingleCommunicator::reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out,
                                        ReduceOp op) {
  copy(stream, make_reduce_call(*this, Verb::reduce_scatter, in, out, op));
}

void SingleCommunicator::all_gather(Stream& stream, const Tensor& in, const Tensor& out) {
  copy(stream, make_exchange_call(*this, Verb::all_gather, in, out));
}

void SingleCommunicator::all_to_all(Stream& stream, const Tensor& in, const Tensor& out) {
  copy(stream, make_exchange_call(*this, Verb::all_to_all, in, out));
}

void SingleCommunicator::broadcast(Stream& stream, const Tensor& data, int root) {
  copy(stream, make_peer_call(*this, Verb::broadcast, data, root));
}

void SingleCommunicator::send(Stream& /*stream*/, const Tensor& data, int to) {
  keep_for_group(sends_, make_peer_call(*this, Verb::send, data, to));
}

void SingleCommunicator::recv(Stream& /*stream*/, const Tensor& data, int from) {
  keep_for_group(recvs_, make_peer_call(*this, Verb::recv, data, from));
}

void SingleCommunicator::keep_for_group(std::vector<Call>& calls, const Call& call) {
  TRIREME_EXPECTS(in_group_, "{} to oneself in group {} outside group_begin/group_end never ends",
                  name_of(call.verb), name());
  counters().add_call(call.verb, call.bytes());
  calls.push_back(call);
}

void SingleCommunicator::group_begin() {
  TRIREME_EXPECTS(!in_group_, "group {}: group_begin inside a group", name());
  in_group_ = true;
}

void SingleCommunicator::group_end(Stream& stream) {
  TRIREME_EXPECTS(in_group_, "group {}: group_end without group_begin", name());
  in_group_ = false;
  const std::size_t pairs = sends_.size();
  TRIREME_EXPECTS(pairs == recvs_.size(), "group {}: {} sends and {} receives to oneself", name(),
                  pairs, recvs_.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    TRIREME_EXPECTS(sends_[i].bytes() == recvs_[i].bytes(), "group {}: {} meets {}", name(),
                    sends_[i].to_string(), recvs_[i].to_string());
    stream.device().copy(stream, recvs_[i].out, sends_[i].in, sends_[i].bytes());
  }
  sends_.clear();
  recvs_.clear();
}

std::unique_ptr<Communicator> SingleCommunicator::split(int /*color*/, int /*key*/,
                                                        std::string name) {
  return std::make_unique<SingleCommunicator>(std::move(name));
}

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>("world");
}

}  // namespace trireme
