// SPDX-License-Identifier: Apache-2.0
// Private to this room: the group of one rank, on any device.
#pragma once

#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/communicator.h"

namespace trireme {

class SingleCommunicator final : public Communicator {
 public:
  explicit SingleCommunicator(std::string name);

  void all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override;
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override;
  void all_gather(Stream& stream, const Tensor& in, const Tensor& out) override;
  void all_to_all(Stream& stream, const Tensor& in, const Tensor& out) override;
  void broadcast(Stream& stream, const Tensor& data, int root) override;
  void send(Stream& stream, const Tensor& data, int to) override;
  void recv(Stream& stream, const Tensor& data, int from) override;
  void group_begin() override;
  void group_end(Stream& stream) override;
  void barrier() override {}
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name) override;

 private:
  void copy(Stream& stream, const Call& call);
  void keep_for_group(std::vector<Call>& calls, const Call& call);

  bool in_group_ = false;
  std::vector<Call> sends_, recvs_;  // of the open group, in order
};

}  // namespace trireme
