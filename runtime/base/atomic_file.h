// SPDX-License-Identifier: Apache-2.0
// Files that appear complete or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/output_directory.h"

namespace trireme {

// Writes to a temporary with a random name beside `path`; commit() makes it durable and renames it.
// The rename replaces a link, it does not follow it. Refuses paths that are not regular files or do
// not lead to one (/dev/stdout), because the rename would replace them. Without commit() (an error)
// `path` is unchanged and the destructor removes the temporary; after a kill the next AtomicFile of
// this path (or the next owner of a run directory) removes it.
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

// Raises the errors of write_file: a device, pipe or directory at `path`, or no parent directory.
// For programs that work long before they write.
void require_writable(const std::string& path, ExitCode code);

// Writes `text` as the file `path`, atomically.
void write_file(const std::string& path, std::string_view text, ExitCode code);

}  // namespace trireme
