// SPDX-License-Identifier: Apache-2.0
// Private to this room: a group on host memory, over MPI or TCP. Calls become tasks of the given
// CPU stream.
#pragma once

#include "runtime/comm/host/host_engine.h"

namespace trireme {

class HostCommunicator final : public Communicator {
 public:
  // Collective: it makes a second group of messages for barrier() and split(), so that these never
  // meet what is still queued on a stream.
  HostCommunicator(std::unique_ptr<Transfers> transfers, std::string name);
  ~HostCommunicator() override;

  void all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override;
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override;
  void all_gather(Stream& stream, const Tensor& in, const Tensor& out) override;
  void all_to_all(Stream& stream, const Tensor& in, const Tensor& out) override;
  void broadcast(Stream& stream, const Tensor& data, int root) override;
  void send(Stream& stream, const Tensor& data, int to) override;
  void recv(Stream& stream, const Tensor& data, int from) override;
  void group_begin() override;
  void group_end(Stream& stream) override;
  void barrier() override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name) override;

 private:
  struct Shared;  // what queued tasks use; it lives until the last of them is done

  HostCommunicator(std::shared_ptr<Shared> shared, std::string name);
  void submit(Stream& stream, const Call& call);

  std::shared_ptr<Shared> shared_;
  bool in_group_ = false;
  Stream* group_stream_ = nullptr;
};

}  // namespace trireme
