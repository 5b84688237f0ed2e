// SPDX-License-Identifier: Apache-2.0
// Verifies that a checkpoint's bytes are those that were written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/files/manifest.h"
#include "runtime/comm/communicator.h"

namespace trireme {

struct Damage {
  std::string file;
  std::string tensor;  // "" if no tensor is concerned
  std::string what;
  [[nodiscard]] std::string describe() const;
  friend bool operator==(const Damage&, const Damage&) = default;
};

// Reads everything, compares every checksum and returns all damage. Each of `shares` callers reads
// a part of about equal bytes. Padding between values is not read.
[[nodiscard]] std::vector<Damage> verify_checkpoint(const std::string& path,
                                                    const Manifest& manifest, int share = 0,
                                                    int shares = 1);

// Whether the manifest can be read and every file that it names exists with its size; reads no
// values.
[[nodiscard]] bool looks_complete(const std::string& path) noexcept;

struct FoundCheckpoint {
  std::int64_t step = 0;
  std::string path;
  Manifest manifest;
};

// The manifest of a checkpoint directory, which may be moved or renamed, but not to another step's
// name. Raises ExitCode::checkpoint.
[[nodiscard]] FoundCheckpoint open_checkpoint(const std::string& path);

// The newest checkpoint of at least `least` steps in a run's checkpoint directory that verifies;
// logs why newer ones are skipped. Collective: each rank reads a part. Raises ExitCode::checkpoint
// if ranks find different checkpoints at a path.
[[nodiscard]] std::optional<FoundCheckpoint> find_newest_valid(const std::string& directory,
                                                               Communicator& world,
                                                               std::int64_t min_step = 0);

// The checkpoint at `path`, verified the same way. Raises ExitCode::checkpoint on all ranks if it
// is damaged or differs between ranks.
[[nodiscard]] FoundCheckpoint open_valid(const std::string& path, Communicator& world);

// Whether all ranks read the same checkpoint or weights: a copy on one host, or a relative path
// there, may belong to another run, and ranks would mix two states. Collective; both raise
// ExitCode::checkpoint on all ranks, with the ranks and hosts of each state.

// By the manifest, which has a checksum of every value.
void require_same_checkpoint(Communicator& world, const FoundCheckpoint& found);

// `path` as for WeightFiles. Compares sizes and bytes of the files; above 64 MiB in total 64 KiB
// blocks, evenly spread, which distinguishes two trainings but does not detect every byte.
void require_same_weights(Communicator& world, const std::string& path);

}  // namespace trireme
