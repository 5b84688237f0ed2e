// SPDX-License-Identifier: Apache-2.0
// A file's copy on a disk of this host; one process's part of making it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/shard/data_file.h"
#include "data/staging/piece_ledger.h"
#include "data/staging/stage_directory.h"

namespace trireme {

// Asked between blocks of a few MB; true ends the work.
using StopAsked = std::function<bool()>;

class StagedCopy {
 public:
  enum class State : std::uint8_t { waiting, worked, complete, given_up };

  // `job`: equal in all processes that share this work, and not 0.
  StagedCopy(StageSource source, const OutputDirectory& directory, std::uint64_t job);

  // Does the pieces that no other process does: copies them, reads them back from the disk and
  // compares checksums; pieces copied by an earlier job are only read back; of a packed shard also
  // checks its checksums, once. complete: processes of this job have verified all pieces, and
  // readers use the copy (data_file.h). given_up: no process copies it any more; the one that found
  // the cause has logged it.
  [[nodiscard]] State advance(const StopAsked& stop);

  [[nodiscard]] const StageSource& source() const { return source_; }
  [[nodiscard]] std::uint64_t bytes_copied() const { return bytes_copied_; }  // by this process

 private:
  struct Open;
  [[nodiscard]] State work(const Open& files, const StopAsked& stop);
  [[nodiscard]] bool settle(const Open& files, std::uint64_t piece, const StopAsked& stop);
  [[nodiscard]] bool content_is_checked(const Open& files, const StopAsked& stop);
  void copy_piece(const Open& files, std::uint64_t piece, const StopAsked& stop);
  void require_unchanged() const;
  [[nodiscard]] State give_up(const Open& files, const std::string& why);

  StageSource source_;
  const OutputDirectory& directory_;
  std::uint64_t job_;
  std::shared_ptr<LocalCopy> readers_;
  std::vector<bool> good_;  // pieces
  std::uint64_t bytes_copied_ = 0;
};

}  // namespace trireme
