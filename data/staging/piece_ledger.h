// SPDX-License-Identifier: Apache-2.0
// Progress of a copy that several processes make together: a small file beside the copy.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/file.h"
#include "runtime/base/output_directory.h"

namespace trireme {

// A piece of a copy.
struct StagedPiece {
  std::uint64_t checksum = 0;     // XXH3-64 of the bytes read from the file
  std::uint64_t verified_by = 0;  // the last job that verified the copy; 0: none
};

// Any number of processes and jobs may open the same ledger. A piece belongs to the process that
// claimed it; its claims end with the process, however it ends.
class PieceLedger {
 public:
  [[nodiscard]] static std::uint64_t bytes_for(std::uint64_t pieces) {
    return pieces * sizeof(StagedPiece);
  }
  // Creates the file if it is missing or has another size: without any piece.
  static void prepare(const OutputDirectory& directory, const std::string& name,
                      std::uint64_t pieces);

  // Opens a prepared file; is_open() is false if there is none.
  PieceLedger(const OutputDirectory& directory, const std::string& name, std::uint64_t pieces);
  [[nodiscard]] bool is_open() const { return file_.is_open(); }
  // Whether a process has given up the copy.
  [[nodiscard]] bool is_removed() const;

  // False if another process has it. Raises ExitCode::internal if files cannot be locked.
  [[nodiscard]] bool claim(std::uint64_t piece) const;
  void release(std::uint64_t piece) const noexcept;
  [[nodiscard]] StagedPiece read(std::uint64_t piece) const;
  void write(std::uint64_t piece, const StagedPiece& value) const;

 private:
  std::string path_;
  FileDescriptor file_;
};

}  // namespace trireme
