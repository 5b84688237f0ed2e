// SPDX-License-Identifier: Apache-2.0
// Private to this module: a group on host memory, over MPI or TCP. Calls become tasks of their CPU
// stream.
#pragma once

#include "runtime/comm/host/host_engine.h"

namespace trireme {

class HostCommunicator final : public Communicator {
 public:
  // Collective: makes a second message group for barrier() and split(), so these never match
  // messages that are still queued on a stream.
  HostCommunicator(std::unique_ptr<Transfers> transfers, std::string name);
  ~HostCommunicator() override;

  void barrier() override;
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                    CommRole role) override;

 protected:
  void submit(Stream& stream, const Call& call) override;
  void submit_group_end(Stream& stream) override;

 private:
  struct Shared;  // used by queued tasks; lives until the last one is done

  HostCommunicator(std::shared_ptr<Shared> shared, std::string name);

  std::shared_ptr<Shared> shared_;
};

}  // namespace trireme
