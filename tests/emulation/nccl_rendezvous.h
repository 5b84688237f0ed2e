// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: how NCCL connects a communicator to its peers, which it does when it
// first needs to. Until a peer posts what matches, the call that needs it stays ncclInProgress, and
// nothing of it is on its stream.
#pragma once

#include <string>
#include <vector>

#include "tests/emulation/nccl_transport.h"

namespace trireme::emulated {

// One pass of connecting: to whom and from whom. In NCCL's words, those whose bits are set in
// connectSend and connectRecv, for all channels at once.
struct NcclSetup {
  int kind = 0;  // 0: messages; else a collective's algorithm
  std::vector<bool> send_to{}, recv_from{};
};

// What a communicator is connected for.
class NcclConnections {
 public:
  // What the group needs and nobody has asked for before, in the library's order.
  [[nodiscard]] std::vector<NcclSetup> add(const NcclTransport& transport,
                                           const std::vector<NcclOp>& ops);

 private:
  std::vector<bool> send_to_, recv_from_;
  bool tree_ = false, ring_ = false;
};

// Returns once the peers of every pass have come to the same one: ncclSuccess, ncclInternalError
// where a peer wants something else first, or ncclInProgress if the communicator was aborted.
[[nodiscard]] ncclResult_t connect(const NcclTransport& transport, const std::string& group,
                                   const std::vector<NcclSetup>& setups);

}  // namespace trireme::emulated
