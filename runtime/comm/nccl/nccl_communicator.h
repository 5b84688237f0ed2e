// SPDX-License-Identifier: Apache-2.0
// Private to this folder: the NCCL back end. Calls on a cuda stream use NCCL; calls on a CPU
// stream, barrier() and group setup use the host group that it owns.
#pragma once

#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/nccl/nccl_calls.h"

namespace trireme {

class NcclCommunicator final : public Communicator {
 public:
  // `host` has the same ranks in the same order.
  NcclCommunicator(std::unique_ptr<Communicator> host, std::unique_ptr<NcclHandle> handle,
                   std::shared_ptr<const NcclOptions> options);

  void barrier() override { host_->barrier(); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                    CommRole role) override;
  [[nodiscard]] std::unique_ptr<Communicator> host_sibling(std::string name) override;

 protected:
  void submit(Stream& stream, const Call& call) override;
  void submit_group_end(Stream& stream) override;

 private:
  std::unique_ptr<Communicator> host_;
  std::unique_ptr<NcclHandle> handle_;
  std::shared_ptr<const NcclOptions> options_;
  NcclCalls calls_;
};

// NcclOptions::repeatable, for this process. Before the first call that makes NCCL read its
// environment.
void require_repeatable_sums();

// Before the engine itself sets any of them.
void warn_of_cta_variables();

// NCCL refuses ranks that share a GPU. Where ranks of `group` do, this sets NCCL_HOSTID of this
// rank and the transport that works then, as far as the user has not set them, and logs once what
// it set. Where they may not, raises ExitCode::config. Collective; before the first call that makes
// NCCL read its environment.
void prepare_for_shared_gpus(Communicator& group, Device& device, bool may_share);

}  // namespace trireme
