// SPDX-License-Identifier: Apache-2.0
// A run's directory of checkpoints on the disk: what is in it, what becomes a checkpoint, what is
// removed. A directory is a checkpoint by its name alone; it gets that name by one rename once
// everything in it is durable, and loses it by one rename before anything in it is removed.
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

// Oldest first; none where the directory does not exist.
[[nodiscard]] std::vector<StepDirectory> list_checkpoints(const std::string& directory);

// For writing checkpoints to, made where it is missing. Raises ExitCode::checkpoint where a link
// stands in its place: what leads to the directory that it lies in may be one.
[[nodiscard]] OutputDirectory checkpoint_directory(const std::string& directory);

// Makes the directory and removes what a killed process left: partial and half-removed checkpoints.
void prepare_checkpoint_directory(const std::string& directory);

// Makes everything in `partial` durable under its final name. What has that name already (it did
// not verify, or a run goes another way from an older one) is replaced.
void commit_directory(const std::string& partial, const std::string& path);

// Removes checkpoints but for the newest `keep` usable ones (at least 1) up to `newest`, the one
// committed last, and every step that is a multiple of `keep_every` (0: none). What is not usable
// does not count: directories that are not complete, `unusable` steps, and steps beyond `newest`,
// which the run did not come from; those beyond it stay. Failures are logged.
void remove_old_checkpoints(const std::string& directory, std::int64_t keep,
                            std::int64_t keep_every, std::int64_t newest,
                            const std::set<std::int64_t>& unusable);

}  // namespace trireme
