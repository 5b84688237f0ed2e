// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: how NCCL connects a communicator to its peers at first use. Until a peer
// posts a matching call, the call stays ncclInProgress and is not on its stream.
#pragma once

#include <string>
#include <vector>

#include "tests/emulation/nccl_transport.h"

namespace trireme::emulated {

// One pass of connecting: peers to send to and receive from. In NCCL, the bits in connectSend and
// connectRecv, for all channels at once.
struct NcclSetup {
  int kind = 0;  // 0: messages; else a collective's algorithm
  std::vector<bool> send_to{}, recv_from{};
};

// The connections that a communicator has.
class NcclConnections {
 public:
  // The connections that the group needs and that are missing, in the library's order.
  [[nodiscard]] std::vector<NcclSetup> add(const NcclTransport& transport,
                                           const std::vector<NcclOp>& ops);

 private:
  std::vector<bool> send_to_, recv_from_;
  bool tree_ = false, ring_ = false;
};

// Returns once the peers of every pass have reached the same pass: ncclSuccess; ncclInternalError
// if a peer needs another pass first; ncclInProgress if the communicator was aborted.
[[nodiscard]] ncclResult_t connect(const NcclTransport& transport, const std::string& group,
                                   const std::vector<NcclSetup>& setups);

}  // namespace trireme::emulated
