// SPDX-License-Identifier: Apache-2.0
// Groups without messages: of one rank, and for a dry device (device/dry/dry_device.h), one rank's
// view of a job that does not run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/communicator.h"

namespace trireme {

// A group that a planned rank makes, from one of `parent` ranks.
struct DryGroup {
  std::string name;
  int size = 1;
  int parent = 1;
};
// All that were made from `world` and from each other, in order.
[[nodiscard]] const std::vector<DryGroup>& dry_groups(const Communicator& world);
// Rank `rank` of `size` in a group that is split from `parent`, which is dry.
[[nodiscard]] std::unique_ptr<Communicator> make_dry_part(Communicator& parent, int rank, int size,
                                                          std::string name);

// Rank `rank` of `size`. Calls check their arguments, are counted and do nothing else. split()
// returns a group of the same ranks, as there are no peers to ask; ProcessMesh::dry makes the
// groups of a mesh.
[[nodiscard]] std::unique_ptr<Communicator> make_dry_communicator(int rank, int size,
                                                                  std::string name);

// The group of one rank, on any device. Private to this module.
class SingleCommunicator final : public Communicator {
 public:
  explicit SingleCommunicator(std::string name);

  void barrier() override {}
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                    CommRole role) override;

 protected:
  void submit(Stream& stream, const Call& call) override;
  void submit_group_end(Stream& stream) override;

 private:
  std::vector<Call> sends_, recvs_;  // of the open group, in order
};

}  // namespace trireme
