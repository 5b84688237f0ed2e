// SPDX-License-Identifier: Apache-2.0
// The files that samples are read from. All readers of data open them here, so that whoever copies
// a file to a disk of this host (staging/staging.h) has to tell nobody: reads go there from the
// moment the copy is complete.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "data/shard/file.h"
#include "data/shard/file_stamp.h"
#include "data/shard/read_times.h"

namespace trireme {

// The copy of one file, if there is one; the same object for all of this process who ask for it.
// Any number of threads.
class LocalCopy {
 public:
  [[nodiscard]] static std::shared_ptr<LocalCopy> of(const std::string& path);

  // From now on `copy`, which holds the same bytes, is read instead; the first one that there is.
  void publish(std::string copy);
  // It is read no more, with a line in the log that says why; false: it was not read anyway.
  bool withdraw(std::string_view why);
  [[nodiscard]] bool is_there() const { return state_.load(std::memory_order_acquire) == there; }
  [[nodiscard]] const std::string& path() const { return path_; }  // once it is there

 private:
  enum State : std::uint8_t { none, arriving, there, gone };
  std::string path_;
  std::atomic<State> state_ = none;
};

// As InputFile, which it is until there is a copy. Sizes and states are those of the file itself.
class DataFile {
 public:
  // Raises ExitCode::data when the path is missing, unreadable or not a regular file.
  explicit DataFile(std::string path);

  // As InputFile::read(). A copy that cannot be read is withdrawn, and the file is read.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] std::uint64_t size() const { return source_.size(); }
  [[nodiscard]] const std::string& path() const { return source_.path(); }
  // The file itself, whatever copy there is.
  [[nodiscard]] const InputFile& source() const { return source_; }
  // Raises ExitCode::data where the file has changed since `watch` was made; what becomes of it
  // while a copy is read does not matter.
  void require_unchanged(const ChangeWatch& watch) const;
  // What was read is wrong: whether it may have been a copy, which is then withdrawn, so that
  // reading again reads the file.
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
  std::unique_ptr<Opened> opened_;  // the copy, at the first read of it
};

}  // namespace trireme
