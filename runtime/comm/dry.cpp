// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/dry.h"

#include "runtime/comm/call.h"

namespace trireme {
namespace {

class DryCommunicator final : public Communicator {
 public:
  DryCommunicator(int rank, int size, std::string name)
      : Communicator(rank, size, std::move(name)) {}

  void all_reduce(Stream& /*stream*/, const Tensor& in, const Tensor& out, ReduceOp op) override {
    count(make_reduce_call(*this, Verb::all_reduce, in, out, op));
  }
  void reduce_scatter(Stream& /*stream*/, const Tensor& in, const Tensor& out,
                      ReduceOp op) override {
    count(make_reduce_call(*this, Verb::reduce_scatter, in, out, op));
  }
  void all_gather(Stream& /*stream*/, const Tensor& in, const Tensor& out) override {
    count(make_exchange_call(*this, Verb::all_gather, in, out));
  }
  void all_to_all(Stream& /*stream*/, const Tensor& in, const Tensor& out) override {
    count(make_exchange_call(*this, Verb::all_to_all, in, out));
  }
  void broadcast(Stream& /*stream*/, const Tensor& data, int root) override {
    count(make_peer_call(*this, Verb::broadcast, data, root));
  }
  void send(Stream& /*stream*/, const Tensor& data, int to) override {
    count(make_peer_call(*this, Verb::send, data, to));
  }
  void recv(Stream& /*stream*/, const Tensor& data, int from) override {
    count(make_peer_call(*this, Verb::recv, data, from));
  }
  void group_begin() override {}
  void group_end(Stream& /*stream*/) override {}
  void barrier() override {}
  [[nodiscard]] std::unique_ptr<Communicator> split(int /*color*/, int /*key*/,
                                                    std::string name) override {
    return make_dry_communicator(rank(), size(), std::move(name));
  }

 private:
  void count(const Call& call) { counters().add_call(call.verb, call.bytes()); }
};

}  // namespace

std::unique_ptr<Communicator> make_dry_communicator(int rank, int size, std::string name) {
  return std::make_unique<DryCommunicator>(rank, size, std::move(name));
}

}  // namespace trireme
