// SPDX-License-Identifier: Apache-2.0
// POSIX files for the data room: positioned reads from many threads, and unnamed temporary storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/file.h"

namespace trireme {

// A regular file opened for reading. read() is thread-safe.
class InputFile {
 public:
  // Raises ExitCode::data if the path is missing, unreadable or not a regular file.
  explicit InputFile(std::string path);

  // Fills `to` from byte `offset`. Raises ExitCode::data naming the file and the byte if the
  // storage fails or the file is too short (truncated after it was opened).
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const FileDescriptor& descriptor() const { return file_; }

 private:
  std::string path_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

// Unnamed storage in `directory`'s file system, for input that cannot be read twice. Freed on
// close, however the process ends.
class SpoolFile {
 public:
  explicit SpoolFile(const std::string& directory);
  void append(std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  std::string directory_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace trireme
