// SPDX-License-Identifier: Apache-2.0
// Private to this folder: the NCCL back end. Calls on a cuda stream are NCCL's; calls on a CPU
// stream, barrier() and what sets up groups go to the host group that it owns.
#pragma once

#include <vector>

#include "runtime/comm/nccl/nccl_calls.h"

namespace trireme {

class NcclCommunicator final : public Communicator {
 public:
  // `host` has the same ranks in the same order.
  NcclCommunicator(std::unique_ptr<Communicator> host, std::unique_ptr<NcclHandle> handle,
                   std::shared_ptr<const NcclOptions> options);

  void all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override;
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override;
  void all_gather(Stream& stream, const Tensor& in, const Tensor& out) override;
  void all_to_all(Stream& stream, const Tensor& in, const Tensor& out) override;
  void broadcast(Stream& stream, const Tensor& data, int root) override;
  void send(Stream& stream, const Tensor& data, int to) override;
  void recv(Stream& stream, const Tensor& data, int from) override;
  void group_begin() override;
  void group_end(Stream& stream) override;
  void barrier() override { host_->barrier(); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name) override;
  [[nodiscard]] std::unique_ptr<Communicator> host_sibling(std::string name) override;

 private:
  void submit(Stream& stream, const Call& call, const Tensor& in, const Tensor& out);

  std::unique_ptr<Communicator> host_;
  std::unique_ptr<NcclHandle> handle_;
  std::shared_ptr<const NcclOptions> options_;
  NcclCalls calls_;
  bool in_group_ = false;
  Stream* group_stream_ = nullptr;
};

}  // namespace trireme
