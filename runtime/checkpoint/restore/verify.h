// SPDX-License-Identifier: Apache-2.0
// Whether a checkpoint's bytes are those that were written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/files/manifest.h"
#include "runtime/comm/communicator.h"

namespace trireme {

struct Damage {
  std::string file;
  std::string tensor;  // "" where no tensor is concerned
  std::string what;
  [[nodiscard]] std::string describe() const;
  friend bool operator==(const Damage&, const Damage&) = default;
};

// Reads everything and compares every checksum; all damage that there is. Of `shares` callers each
// looks at its part, in about equal bytes. Bytes between the values belong to nothing and are not
// looked at.
[[nodiscard]] std::vector<Damage> verify_checkpoint(const std::string& path,
                                                    const Manifest& manifest, int share = 0,
                                                    int shares = 1);

// Whether the manifest can be read and every file that it names is there with its size; no value is
// read.
[[nodiscard]] bool looks_complete(const std::string& path) noexcept;

struct FoundCheckpoint {
  std::int64_t step = 0;
  std::string path;
  Manifest manifest;
};

// The manifest of a checkpoint's directory, which may have been moved or given a name of its own,
// but not that of another step. Raises ExitCode::checkpoint.
[[nodiscard]] FoundCheckpoint open_checkpoint(const std::string& path);

// The newest checkpoint in a run's directory of checkpoints that verifies; why a newer one is
// passed over is logged. Those of fewer than `least` steps are not looked at. Collective: the ranks
// read together, each a part. Raises ExitCode::checkpoint where ranks find different ones at a
// path.
[[nodiscard]] std::optional<FoundCheckpoint> find_newest_valid(const std::string& directory,
                                                               Communicator& world,
                                                               std::int64_t min_step = 0);

// The checkpoint that `path` is, verified likewise. Raises ExitCode::checkpoint, alike on all
// ranks, where it is damaged or not the same for all.
[[nodiscard]] FoundCheckpoint open_valid(const std::string& path, Communicator& world);

// Whether all ranks read the same checkpoint or weights: a copy on one host, or what a relative
// path leads to there, may be another run's, and ranks would mix two states. Collective; both raise
// ExitCode::checkpoint on all ranks alike, with which ranks on which hosts have what.

// By the manifest, which has a checksum of every value.
void require_same_checkpoint(Communicator& world, const FoundCheckpoint& found);

// `path` as WeightFiles takes it. By sizes and bytes of the files; of more than 64 MiB together by
// 64 KiB blocks that are spread evenly, which tells two trainings apart, but not every single byte.
void require_same_weights(Communicator& world, const std::string& path);

}  // namespace trireme
