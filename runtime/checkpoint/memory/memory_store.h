// SPDX-License-Identifier: Apache-2.0
// Copies of a run's state in host memory: files on a memory file system, which survive the
// processes that wrote them but not their host. Each rank keeps its own slices and those of a rank
// on another host (its buddy), so any one host may be lost. After G. Zheng, L. Shi and L. V. Kale,
// "FTC-Charm++: an in-memory checkpoint-based fault tolerant runtime", CLUSTER 2004.
//
//   <base>/trireme-<id>/<host>/rank_00003/step_00000100/{rank_00003.h5,rank_00007.h5,checkpoint.h5,manifest.json}
//
// <id> is drawn when a run first keeps such copies; <run>/checkpoints/memory.id holds it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/comm/communicator.h"

namespace trireme {

// The buddy of each rank, which keeps a copy of its slices: the rank on the next host with the same
// local rank, if it exists. -1 if all ranks share a host. `hosts`: per rank.
[[nodiscard]] std::vector<int> buddies_of(std::span<const std::string> hosts);

// A directory in host memory (/dev/shm), and this host's name.
struct MemoryPlace {
  std::string base;
  std::string host = host_name();
};

class MemoryStore {
 public:
  MemoryStore(const MemoryPlace& place, const std::string& id)
      : root_(place.base + "/trireme-" + id), host_(root_ + "/" + place.host) {}

  // For all hosts, if they share the directory.
  [[nodiscard]] const std::string& root() const { return root_; }
  // This host's directory.
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] std::string rank(int rank) const;

  // Empties this host's directory, and removes the remains of earlier runs of `run_directory`, an
  // absolute path, from `base`. Call it on one rank per host. Raises ExitCode::config if it cannot
  // write.
  void clear(const std::string& run_directory) const;
  // Removes this rank's copies, and empty parent directories. Never raises.
  void forget(int rank) const noexcept;

 private:
  std::string root_, host_;
};

// Where a rank's copies go, and which ranks' copies it keeps.
struct MemoryCopies {
  MemoryStore store;
  int to = -1;              // this rank's buddy
  std::vector<int> from{};  // ranks whose buddy this is
};
// Creates the id if there is none, and clears the hosts' memory. Collective. Raises
// ExitCode::config on all ranks if one cannot write to its memory.
[[nodiscard]] MemoryCopies prepare_memory(const MemoryPlace& place, const std::string& checkpoints,
                                          Communicator& group);

// The id in a run's checkpoint directory; nothing if the run never kept copies in memory.
[[nodiscard]] std::optional<std::string> memory_id(const std::string& checkpoints);
// Writes the newest state that is complete in the hosts' memory to the run's checkpoint directory,
// as a normal checkpoint, unless one as new exists. Does not verify it. Collective; blocks the
// host. Raises ExitCode::checkpoint on all ranks if it cannot be written. `place`: as in the start
// that kept the copies.
void recover_from_memory(const MemoryPlace& place, const std::string& checkpoints,
                         Communicator& world);

}  // namespace trireme
