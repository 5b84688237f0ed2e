// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/single.h"

namespace trireme {
namespace {

constexpr std::size_t usual_sends = 64;

}  // namespace

SingleCommunicator::SingleCommunicator(std::string name) : Communicator(0, 1, std::move(name)) {
  sends_.reserve(usual_sends);
  recvs_.reserve(usual_sends);
}

void SingleCommunicator::submit(Stream& stream, const Call& call) {
  counters().add_call(call.verb, call.bytes());
  if (call.verb == Verb::send) {
    sends_.push_back(call);
  } else if (call.verb == Verb::recv) {
    recvs_.push_back(call);
  } else {
    stream.device().copy(stream, call.out, call.in, call.bytes());
  }
}

void SingleCommunicator::submit_group_end(Stream& stream) {
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
