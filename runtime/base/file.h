// SPDX-License-Identifier: Apache-2.0
// Files through POSIX: an owning descriptor, whole reads and writes, and files that appear complete
// or not at all. Every error names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {

// Owns a file descriptor. Move only; the moved-from object is empty.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    FileDescriptor moved(std::move(other));
    std::swap(descriptor_, moved.descriptor_);
    return *this;
  }

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  // Closes and reports what close() says; delayed write errors of network file systems appear here.
  void close(const std::string& path, ExitCode code);

 private:
  int descriptor_ = -1;
};

// Waits where `path` is a named pipe that nobody writes to: for input that may be a stream.
[[nodiscard]] FileDescriptor open_for_reading(const std::string& path, ExitCode code);
// For every other file that a user names. A named pipe, device, socket or directory is refused at
// once.
[[nodiscard]] FileDescriptor open_regular_file(const std::string& path, ExitCode code);

// Made new, or emptied.
[[nodiscard]] FileDescriptor open_for_writing(const std::string& path, ExitCode code);

// Size in bytes of a regular file; anything else (directory, device) is an error.
[[nodiscard]] std::uint64_t regular_file_size(const FileDescriptor& file, const std::string& path,
                                              ExitCode code);

// The whole of a regular file of at most `limit` bytes.
[[nodiscard]] std::string read_whole_file(const std::string& path, std::uint64_t limit,
                                          ExitCode code);

// Fills `to` from `offset`; a file that ends early is an error. Safe from several threads.
void read_exactly(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                  std::span<std::byte> to, ExitCode code);

// Writes all of `data` at the file's position.
void write_fully(const FileDescriptor& file, const std::string& path,
                 std::span<const std::byte> data, ExitCode code);

// The same at `offset`; safe from several threads.
void write_fully_at(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                    std::span<const std::byte> data, ExitCode code);

// fsync of a file or directory by path.
void sync_path(const std::string& path, ExitCode code = ExitCode::internal);
// The directory that holds `path` ("." when the path has none).
[[nodiscard]] std::string parent_directory(const std::string& path);
// Raises an error in the user's words for a full disk, a quota or a file size limit, else the POSIX
// error as it is. Reads errno.
[[noreturn]] void write_failed(const std::string& call, const std::string& path,
                               ExitCode code = ExitCode::internal);

// Writes to "<path>.tmp"; commit() makes it durable and gives it its name in one step. Without
// commit() (an error, a kill) `path` is as it was before, and the destructor removes the temporary.
class AtomicFile {
 public:
  AtomicFile(std::string path, ExitCode code);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> data);
  void write(std::string_view text);
  // fsync, close, rename, fsync of the parent directory.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  ExitCode code_;
  FileDescriptor file_;
};

// The whole of `text` as the file `path`, atomically.
void write_file(const std::string& path, std::string_view text, ExitCode code);

}  // namespace trireme
