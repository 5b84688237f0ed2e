// SPDX-License-Identifier: Apache-2.0
// Checks that ranks with the same weights hold the same bits: a flipped bit or a broken processor
// makes replicas diverge without a sign in the loss. Compares parameters that data-parallel ranks
// hold whole, possibly only as compute copies, and those that tensor-parallel ranks do not split.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/param_store.h"
#include "runtime/train/step/streams.h"

namespace trireme {

class ReplicaCheck {
 public:
  // The references must outlive the check. Collective over the mesh.
  ReplicaCheck(Device& device, const ParamStore& params, const ProcessMesh& mesh, Streams& streams);

  // Enqueues digests of the weights after `done` steps, and their comparison; whole parameters must
  // be final on the compute stream. Collective, one at a time.
  void start(std::int64_t done);
  // Blocks until the last started comparison, if any is open, is done. Raises
  // ExitCode::communication, naming the odd rank and its tensors, on every rank of its group.
  void finish();

 private:
  // Part of a tensor, and the group that compares it.
  struct Region {
    std::string name;
    Tensor values{};
    bool with_data = false, with_tensor = false;
    bool slice = false;  // the same in every ZeRO group
    // The same for experts that data ranks share out among them.
    bool with_experts = false, expert_slice = false;
  };
  // One group: the largest and smallest digest of each region over its ranks.
  struct Group {
    Communicator* ranks = nullptr;
    bool Region::*compares = nullptr;
    Buffer extremes, host;  // (2, regions) u64
  };
  void add_parameters();
  // The part of a parameter in this rank's slice of its bucket; may be empty.
  void compare(Group& group);
  void judge(const Group& group);
  [[noreturn]] void name_odd_one(const Group& group, std::span<const std::size_t> differing);
  [[nodiscard]] Tensor digests() const;

  Device& device_;
  const ParamStore& params_;
  Streams& streams_;
  std::vector<Region> regions_;
  Buffer digests_;             // (regions) u64
  const bool shares_experts_;  // data ranks do
  std::unique_ptr<Communicator> replicas_, tensor_, experts_, expert_replicas_;
  std::vector<Group> groups_;
  std::unique_ptr<Event> digested_, compared_;
  std::int64_t done_ = -1;  // of the open comparison
};

// Ranks whose digest differs from the majority; all ranks if there is no majority. Ascending.
[[nodiscard]] std::vector<int> odd_ranks(std::span<const std::uint64_t> digest_of_rank);

}  // namespace trireme
