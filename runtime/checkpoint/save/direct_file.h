// SPDX-License-Identifier: Apache-2.0
// A file that is written past the page cache (O_DIRECT, open(2)) wherever the file system and the
// alignment of what is written allow it: no copy through the kernel, and fsync finds nothing left
// to do. What they do not allow goes through the page cache. Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/output_directory.h"

namespace trireme {

class DirectFile {
 public:
  // Of offsets and memory, for writing past the page cache: the largest logical block in use.
  static constexpr std::size_t alignment = 4096;

  // Made new.
  DirectFile(const OutputDirectory& directory, const std::string& name, ExitCode code);
  // Fails as write() would where the disk has no room for so many bytes, and takes none of what
  // there is: the run's log and its weights need it.
  void require_room(std::uint64_t bytes) const;
  // Parts must not share a block of `alignment` bytes unless the second is written after the first.
  void write(std::uint64_t offset, std::span<const std::byte> data);
  // Sets the size, makes everything durable and closes.
  void finish(std::uint64_t bytes);

 private:
  // What is left for the page cache.
  [[nodiscard]] std::span<const std::byte> write_past_cache(std::uint64_t offset,
                                                            std::span<const std::byte> data);

  std::string path_;
  ExitCode code_;
  FileDescriptor cached_;
  FileDescriptor direct_;  // not open where the file system has no such thing
};

}  // namespace trireme
