// SPDX-License-Identifier: Apache-2.0
// The directory for copies of data files on a host's own disk, and the choice of copies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/fields/storage/field_index.h"
#include "runtime/base/file.h"
#include "runtime/base/output_directory.h"

namespace trireme {

inline constexpr std::uint64_t stage_piece_bytes = std::uint64_t{64} << 20;

// A file to copy, with its state at that decision.
struct StageSource {
  std::string path;
  FileState state;
  bool is_shard = false;  // its own checksums verify the copy
  std::uint64_t piece_bytes = stage_piece_bytes;

  [[nodiscard]] std::uint64_t pieces() const {
    return (state.size + piece_bytes - 1) / piece_bytes;
  }
  // Names in the directory, derived from path, size and modification time.
  [[nodiscard]] std::string copy_name() const { return name() + ".copy"; }
  [[nodiscard]] std::string ledger_name() const { return name() + ".pieces"; }
  // Common to all copies of this path, whatever its state.
  [[nodiscard]] std::string name_of_path() const;
  // Of copy and ledger. The ledger has one entry per piece, plus one for the whole content.
  [[nodiscard]] std::uint64_t bytes_on_disk() const;

 private:
  [[nodiscard]] std::string name() const;
};

struct StagingPlan {
  std::size_t files = 0;  // number of files that fit
  std::uint64_t bytes = 0;
  // The first file that does not fit, and why; "" for none.
  std::string left_out;
  std::size_t files_left_out = 0;
  // With file and bytes, if the disk fails or is full before the limit is reached.
  std::string problem;
};

// PATH/trireme-UID, for this user alone, made if missing.
class StageDirectory {
 public:
  // Raises ExitCode::config, naming data.stage, if it cannot be made or written to, or others may
  // write to it; ExitCode::internal if the disk is full.
  explicit StageDirectory(const std::string& path);

  // Reserves space for the first of `sources` that fit together in `limit` bytes (0: no limit); the
  // others then have no ledger. If no other job uses the directory, removes copies that are not in
  // `sources`: earlier states of the same files, and the oldest of other files. Call it in one
  // process per job and host; this object marks the directory as in use while it lives.
  [[nodiscard]] StagingPlan reserve(std::span<const StageSource> sources, std::uint64_t limit);

  [[nodiscard]] const OutputDirectory& files() const { return *directory_; }

 private:
  std::optional<OutputDirectory> directory_;
  FileDescriptor in_use_;
};

}  // namespace trireme
