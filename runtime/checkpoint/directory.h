// SPDX-License-Identifier: Apache-2.0
// A run's checkpoint directory on disk: listing, committing and removing. Only its name makes a
// directory a checkpoint: one rename gives the name once all contents are durable, and one rename
// takes it away before anything is removed.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/output_directory.h"

namespace trireme {

struct StepDirectory {
  std::int64_t step = 0;
  std::string path;
};

// Oldest first; empty if the directory does not exist.
[[nodiscard]] std::vector<StepDirectory> list_checkpoints(const std::string& directory);

// The directory for checkpoints, made if it is missing. Raises ExitCode::checkpoint if it is a
// symbolic link; links above it are allowed.
[[nodiscard]] OutputDirectory checkpoint_directory(const std::string& directory);

// Makes the directory and removes partial and half-removed checkpoints of a killed process.
void prepare_checkpoint_directory(const std::string& directory);

// Makes everything in `partial` durable under its final name, replacing an existing directory (it
// did not verify, or the run was continued from an older checkpoint).
void commit_directory(const std::string& partial, const std::string& path);

// Removes checkpoints except the newest `keep` (at least 1) usable ones up to `newest`, the last
// one committed, and except step `best` and every multiple of `keep_every` (0: none). Incomplete
// directories, `unusable` steps, and steps beyond `newest` (not part of this run's history) do not
// count; the last are kept. Failures are logged.
void remove_old_checkpoints(const std::string& directory, std::int64_t keep,
                            std::int64_t keep_every, std::int64_t newest,
                            const std::set<std::int64_t>& unusable, std::int64_t best = 0);

}  // namespace trireme
