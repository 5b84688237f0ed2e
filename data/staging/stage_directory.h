// SPDX-License-Identifier: Apache-2.0
// The directory on a host's own disk that holds copies of data files: which there are to be.
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

// A file to be copied, as it was when that was decided.
struct StageSource {
  std::string path;
  FileState state;
  bool is_shard = false;  // its own checksums hold for the copy
  std::uint64_t piece_bytes = stage_piece_bytes;

  [[nodiscard]] std::uint64_t pieces() const {
    return (state.size + piece_bytes - 1) / piece_bytes;
  }
  // Names beside each other in the directory, which follow from path, size and time of change.
  [[nodiscard]] std::string copy_name() const { return name() + ".copy"; }
  [[nodiscard]] std::string ledger_name() const { return name() + ".pieces"; }
  // What all copies of this path have in common, whatever its state.
  [[nodiscard]] std::string name_of_path() const;
  // Of copy and ledger. The ledger has one more entry than pieces: of the whole content.
  [[nodiscard]] std::uint64_t bytes_on_disk() const;

 private:
  [[nodiscard]] std::string name() const;
};

struct StagingPlan {
  std::size_t files = 0;  // for which there is room
  std::uint64_t bytes = 0;
  // The first of those for which there is none, and why; "" for none.
  std::string left_out;
  std::size_t files_left_out = 0;
  // In words, with file and bytes, where the disk is full before the limit is reached, or fails.
  std::string problem;
};

// PATH/trireme-UID, for this user alone, made where it is missing.
class StageDirectory {
 public:
  // Raises ExitCode::config, naming data.stage, where it cannot be made or written to, or where
  // others may write to it; ExitCode::internal where the disk is full.
  explicit StageDirectory(const std::string& path);

  // Makes room for the first of `sources` that fit beside each other in `limit` bytes (0: any
  // number), and reserves it: of the others no ledger is there afterwards. While no other job uses
  // the directory, copies that are not in `sources` make way: earlier states of the same files, and
  // the oldest of others. For one process of a job on this host, whose object says for as long as
  // it lives that the directory is in use.
  [[nodiscard]] StagingPlan reserve(std::span<const StageSource> sources, std::uint64_t limit);

  [[nodiscard]] const OutputDirectory& files() const { return *directory_; }

 private:
  std::optional<OutputDirectory> directory_;
  FileDescriptor in_use_;
};

}  // namespace trireme
