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
  // Closes and raises errors of close(), where delayed write errors of network file systems appear.
  void close(const std::string& path, ExitCode code);

 private:
  int descriptor_ = -1;
};

// For input that may be a stream: blocks if `path` is a named pipe without a writer.
[[nodiscard]] FileDescriptor open_for_reading(const std::string& path, ExitCode code);
// For all other files that a user names. Refuses a named pipe, device, socket or directory at once.
[[nodiscard]] FileDescriptor open_regular_file(const std::string& path, ExitCode code);

// Raised by open_regular_file() if no descriptor is left, with how to get more. Not with the
// caller's code: the file is all right, and a restart may succeed.
[[noreturn]] void too_many_open_files(const std::string& path);

// Size in bytes of a regular file; raises an error for anything else (directory, device).
[[nodiscard]] std::uint64_t regular_file_size(const FileDescriptor& file, const std::string& path,
                                              ExitCode code);

// The error of regular_file_size() for a pipe or device that cannot even be opened.
[[noreturn]] void refuse_irregular_file(const std::string& path, ExitCode code);

// Reads a regular file of at most `limit` bytes.
[[nodiscard]] std::string read_whole_file(const std::string& path, std::uint64_t limit,
                                          ExitCode code);

// The same; nothing if the file does not exist.
[[nodiscard]] std::optional<std::string> read_file_if_exists(const std::string& path,
                                                             std::uint64_t limit, ExitCode code);

// Fills `to` from `offset`; raises an error if the file ends early. Thread-safe.
void read_exactly(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                  std::span<std::byte> to, ExitCode code);

// At most `bytes` bytes at `offset`; fewer at the end, none if it cannot be read.
[[nodiscard]] std::string bytes_at(const FileDescriptor& file, std::uint64_t offset,
                                   std::uint64_t bytes);

// Writes all of `data` at the file's position.
void write_fully(const FileDescriptor& file, const std::string& path,
                 std::span<const std::byte> data, ExitCode code);

// The same at `offset`; thread-safe.
void write_fully_at(const FileDescriptor& file, const std::string& path, std::uint64_t offset,
                    std::span<const std::byte> data, ExitCode code);

// fsync of a file or directory by path.
void sync_path(const std::string& path, ExitCode code = ExitCode::internal);
// The directory that holds `path` ("." if the path has none).
[[nodiscard]] std::string parent_directory(const std::string& path);
// Raises a clear error for a full disk, a quota or a file size limit, otherwise the POSIX error.
// Reads errno.
[[noreturn]] void write_failed(const std::string& call, const std::string& path,
                               ExitCode code = ExitCode::internal);

// `code`, but ExitCode::internal instead of ExitCode::config if `error`, an errno, means a full
// disk or an exceeded quota: that is no fault of the configuration and may pass, so launch scripts
// retry.
[[nodiscard]] ExitCode code_of_failed_write(int error, ExitCode code) noexcept;

}  // namespace trireme
