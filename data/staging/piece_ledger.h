// SPDX-License-Identifier: Apache-2.0
// What is there of a copy that several processes make together: a small file beside the copy.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/file.h"
#include "runtime/base/output_directory.h"

namespace trireme {

// A piece of a copy.
struct StagedPiece {
  std::uint64_t checksum = 0;     // XXH3-64 of what was read of the file
  std::uint64_t verified_by = 0;  // the job that has last read the copy and found it so; 0: none
};

// Any number of processes, of one job or of several, may have one file of these open. A piece
// belongs to who has claimed it; a process that ends, however it ends, gives up its claims.
class PieceLedger {
 public:
  [[nodiscard]] static std::uint64_t bytes_for(std::uint64_t pieces) {
    return pieces * sizeof(StagedPiece);
  }
  // Makes the file where it is missing or of another size: no piece is there.
  static void prepare(const OutputDirectory& directory, const std::string& name,
                      std::uint64_t pieces);

  // Of a prepared file; is_open() is false where there is none.
  PieceLedger(const OutputDirectory& directory, const std::string& name, std::uint64_t pieces);
  [[nodiscard]] bool is_open() const { return file_.is_open(); }
  // Somebody has given up the copy.
  [[nodiscard]] bool is_removed() const;

  // False where another has it. Raises ExitCode::internal where files cannot be locked.
  [[nodiscard]] bool claim(std::uint64_t piece) const;
  void release(std::uint64_t piece) const noexcept;
  [[nodiscard]] StagedPiece read(std::uint64_t piece) const;
  void write(std::uint64_t piece, const StagedPiece& value) const;

 private:
  std::string path_;
  FileDescriptor file_;
};

}  // namespace trireme
