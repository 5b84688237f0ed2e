// SPDX-License-Identifier: Apache-2.0
// Detects changes of files that are read in place, from file system metadata alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "runtime/base/file.h"

namespace trireme {

struct FileStamp {
  // Without the device: a remounted network file system may have another number.
  std::uint64_t inode = 0, size = 0;
  // Nanoseconds. Writing updates both; `modified` can be set back, `changed` (ctime) cannot, but it
  // also changes with `access` and names.
  std::int64_t modified = 0, changed = 0;
  std::uint64_t access = 0;  // from mode, owner, group and link count
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Of an existing regular file. Raises ExitCode::data.
[[nodiscard]] FileStamp stamp_of_file(const std::string& path);
[[nodiscard]] FileStamp stamp_of_file(const FileDescriptor& file, const std::string& path);

// How a file with these stamps may have got other bytes: "it has 7 bytes and had 9"; "" if it has
// not. A later `changed` with another `access` is attributed to chmod, chown or ln.
[[nodiscard]] std::string difference(const FileStamp& before, const FileStamp& now);

// Raises ExitCode::data: the file has changed since the run began, and how.
[[noreturn]] void refuse_changed_file(const std::string& path, const std::string& how);

// Compares an open file with its state at construction. Thread-safe.
class ChangeWatch {
 public:
  ChangeWatch(const FileDescriptor& file, const std::string& path);
  // Checks at most every 10 ms. Raises ExitCode::data if the file has changed.
  void check(const FileDescriptor& file, const std::string& path) const;
  // The same without that limit.
  void check_now(const FileDescriptor& file, const std::string& path) const;
  // The stamp at construction.
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }

 private:
  FileStamp stamp_;
  mutable std::mutex mutex_;
  mutable FileStamp latest_;                     // guarded by mutex_
  mutable std::atomic<std::int64_t> looked_at_;  // by its own clock, nanoseconds
};

}  // namespace trireme
