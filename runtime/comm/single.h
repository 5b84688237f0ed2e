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

  void barrier() override {}
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name) override;

 protected:
  void submit(Stream& stream, const Call& call) override;
  void submit_group_end(Stream& stream) override;

 private:
  std::vector<Call> sends_, recvs_;  // of the open group, in order
};

}  // namespace trireme
