// SPDX-License-Identifier: Apache-2.0
// Files that appear complete or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/output_directory.h"

namespace trireme {

// Writes to a temporary of a random name beside `path`; commit() makes it durable and gives it its
// name in one step: a link of that name is replaced, not followed; what is no regular file, or
// leads to none (/dev/stdout), is refused, for the rename would take its place. Without commit()
// (an error) `path` is as it was before, and the destructor removes the temporary; what a kill
// leaves is removed by the next AtomicFile of this path (and by the next owner of a run's
// directory).
class AtomicFile {
 public:
  AtomicFile(const std::string& path, ExitCode code);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> data);
  void write(std::string_view text);
  // fsync, rename, close, fsync of the parent directory.
  void commit();

 private:
  std::string path_, name_;
  ExitCode code_;
  OutputDirectory directory_;
  std::string temporary_;
  FileDescriptor file_;
};

// Refuses what write_file would: a device, a pipe or a directory at `path`, or no directory for it.
// For a program that has long to work before it writes.
void require_writable(const std::string& path, ExitCode code);

// The whole of `text` as the file `path`, atomically.
void write_file(const std::string& path, std::string_view text, ExitCode code);

}  // namespace trireme
