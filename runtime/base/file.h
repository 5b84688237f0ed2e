// SPDX-License-Identifier: Apache-2.0
// Files through POSIX: an owning descriptor, whole reads and writes. Every error names the path.
// Files are made by output_directory.h and atomic_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

// What open_regular_file() raises where no descriptor is left, with how to get more. Not by a code
// of the caller: nothing is wrong with the file, and where the program starts again there may be
// room.
[[noreturn]] void too_many_open_files(const std::string& path);

// Size in bytes of a regular file; anything else (directory, device) is an error.
[[nodiscard]] std::uint64_t regular_file_size(const FileDescriptor& file, const std::string& path,
                                              ExitCode code);

// What regular_file_size() raises of a pipe or device that cannot even be opened.
[[noreturn]] void refuse_irregular_file(const std::string& path, ExitCode code);

// The whole of a regular file of at most `limit` bytes.
[[nodiscard]] std::string read_whole_file(const std::string& path, std::uint64_t limit,
                                          ExitCode code);

// The same; nothing where there is no such file.
[[nodiscard]] std::optional<std::string> read_file_if_exists(const std::string& path,
                                                             std::uint64_t limit, ExitCode code);

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

// What a write that failed for want of room means to whoever starts the program again.

// `code`; but ExitCode::internal in the place of ExitCode::config where `error`, an errno, says
// that the disk is full or a quota used up: no fault of the configuration, and later there may be
// room, so that launch scripts try again.
[[nodiscard]] ExitCode code_of_failed_write(int error, ExitCode code) noexcept;

}  // namespace trireme
