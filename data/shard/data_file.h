// SPDX-License-Identifier: Apache-2.0
// The files that samples are read from. All data readers open them here, so once a local copy
// (staging/staging.h) is complete, all reads use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "data/shard/file_stamp.h"
#include "data/shard/read_times.h"
#include "runtime/base/file.h"

namespace trireme {

// POSIX files for the data module: positioned reads from many threads, and unnamed temporary
// storage.

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

// The local copy of one file, if any; one object per process and file. Thread-safe.
class LocalCopy {
 public:
  [[nodiscard]] static std::shared_ptr<LocalCopy> of(const std::string& path);

  // From now on reads use `copy`, which has the same bytes; only the first call counts.
  void publish(std::string copy);
  // Stops reads from the copy and logs why; false if there is no copy in use.
  bool withdraw(std::string_view why);
  [[nodiscard]] bool is_there() const { return state_.load(std::memory_order_acquire) == there; }
  [[nodiscard]] const std::string& path() const { return path_; }  // once published

 private:
  enum State : std::uint8_t { none, arriving, there, gone };
  std::string path_;
  std::atomic<State> state_ = none;
};

// Like InputFile, but uses the copy if there is one. Sizes and states are those of the file itself.
class DataFile {
 public:
  // Raises ExitCode::data if the path is missing, unreadable or not a regular file.
  explicit DataFile(std::string path);

  // Like InputFile::read(). If the copy cannot be read, withdraws it and reads the file.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] std::uint64_t size() const { return source_.size(); }
  [[nodiscard]] const std::string& path() const { return source_.path(); }
  // The file itself, even if there is a copy.
  [[nodiscard]] const InputFile& source() const { return source_; }
  // Raises ExitCode::data if the file has changed since `watch` was made; changes do not matter
  // while a copy is read.
  void require_unchanged(const ChangeWatch& watch) const;
  // Call it when read data is wrong: true if it may have come from a copy, which is withdrawn, so
  // that a second read uses the file.
  [[nodiscard]] bool leave_copy(std::string_view why) const { return copy_->withdraw(why); }

 private:
  struct Opened {
    std::once_flag once;
    FileDescriptor file;
  };
  [[nodiscard]] bool read_copy(std::uint64_t offset, std::span<std::byte> to) const;

  InputFile source_;
  std::shared_ptr<LocalCopy> copy_;
  std::shared_ptr<ReadTimes> times_;
  std::unique_ptr<Opened> opened_;  // the copy, opened at its first read
};

}  // namespace trireme
