// SPDX-License-Identifier: Apache-2.0
// Copies of a run's state in the memory of its hosts: files on a memory file system, which outlive
// the processes that wrote them but not their host. Each rank keeps its own slices, and those of a
// rank on another host (its buddy's), so that any one host may be lost. After G. Zheng, L. Shi and
// L. V. Kale, "FTC-Charm++: an in-memory checkpoint-based fault tolerant runtime", CLUSTER 2004.
//
//   <base>/trireme-<id>/<host>/rank_00003/step_00000100/{rank_00003.h5,rank_00007.h5,checkpoint.h5,manifest.json}
//
// <id> is drawn when the run first keeps such copies, and stands in <run>/checkpoints/memory.id.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/comm/communicator.h"

namespace trireme {

// What keeps the copy of each rank's slices: the rank on the next host at the same place among its
// host's ranks, as far as there is one. -1 where all ranks share a host. `hosts`: of each rank.
[[nodiscard]] std::vector<int> buddies_of(std::span<const std::string> hosts);

// A directory of the host's memory (/dev/shm), and what this host is called.
struct MemoryPlace {
  std::string base;
  std::string host = host_name();
};

class MemoryStore {
 public:
  MemoryStore(const MemoryPlace& place, const std::string& id)
      : root_(place.base + "/trireme-" + id), host_(root_ + "/" + place.host) {}

  // Of all hosts, where their directories are one.
  [[nodiscard]] const std::string& root() const { return root_; }
  // This host's.
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] std::string rank(int rank) const;

  // Makes this host's directory empty, and removes what earlier runs of `run_directory`, an
  // absolute path, left in `base`. By one rank of a host. Raises ExitCode::config where nothing can
  // be written there.
  void clear(const std::string& run_directory) const;
  // Removes this rank's copies, and the directories above once they are empty. Never raises.
  void forget(int rank) const noexcept;

 private:
  std::string root_, host_;
};

// Where a rank's copies go, and whose it keeps.
struct MemoryCopies {
  MemoryStore store;
  int to = -1;              // its buddy
  std::vector<int> from{};  // whose buddy it is
};
// Draws the id where there is none, and clears what the hosts hold. Collective. Raises
// ExitCode::config, on all ranks, where one cannot write to its memory.
[[nodiscard]] MemoryCopies prepare_memory(const MemoryPlace& place, const std::string& checkpoints,
                                          Communicator& group);

// The id in a run's directory of checkpoints; nothing where it never kept copies in memory.
[[nodiscard]] std::optional<std::string> memory_id(const std::string& checkpoints);
// Brings the newest state that the hosts hold whole in memory into the run's directory of
// checkpoints, as a checkpoint like any other, unless one as new is there. It is not verified here.
// Collective; blocks the host. Raises ExitCode::checkpoint on all ranks where it could not be
// written. `place`: as it was for the start that kept them.
void recover_from_memory(const MemoryPlace& place, const std::string& checkpoints,
                         Communicator& world);

}  // namespace trireme
