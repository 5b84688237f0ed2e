// SPDX-License-Identifier: Apache-2.0
// A file written with direct I/O (O_DIRECT, open(2)) if file system and alignment allow it: no copy
// through the kernel, and nothing left for fsync. The rest goes through the page cache. Private to
// this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/output_directory.h"

namespace trireme {

class DirectFile {
 public:
  // Of offsets and memory, for direct I/O: the largest logical block size in use.
  static constexpr std::size_t alignment = 4096;

  // Creates the file.
  DirectFile(const OutputDirectory& directory, const std::string& name, ExitCode code);
  // Raises the error of a full disk if it lacks room for `bytes`, without using any room: the run's
  // log and weights need it.
  void require_room(std::uint64_t bytes) const;
  // Two parts may share a block of `alignment` bytes only if they are written one after the other.
  void write(std::uint64_t offset, std::span<const std::byte> data);
  // Sets the size, makes the file durable and closes it.
  void finish(std::uint64_t bytes);

 private:
  // Returns the rest, for the page cache.
  [[nodiscard]] std::span<const std::byte> write_past_cache(std::uint64_t offset,
                                                            std::span<const std::byte> data);

  std::string path_;
  ExitCode code_;
  FileDescriptor cached_;
  FileDescriptor direct_;  // not open if the file system has no direct I/O
};

}  // namespace trireme
