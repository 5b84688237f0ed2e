// SPDX-License-Identifier: Apache-2.0
// Whether a file that is read in place is still the one that it was: all that a file system can
// tell without reading it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "runtime/base/file.h"

namespace trireme {

struct FileStamp {
  // Not the device: a network file system that is mounted again may have another number.
  std::uint64_t inode = 0, size = 0;
  // Nanoseconds. Writing moves both; `modified` can be set back, `changed` (ctime) cannot, but also
  // moves with `access` and with names.
  std::int64_t modified = 0, changed = 0;
  std::uint64_t access = 0;  // of mode, owner, group and number of names
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Of a regular file that is there. Raises ExitCode::data.
[[nodiscard]] FileStamp stamp_of_file(const std::string& path);
[[nodiscard]] FileStamp stamp_of_file(const FileDescriptor& file, const std::string& path);

// How a file of these stamps may have come to hold other bytes: "it has 7 bytes and had 9"; ""
// where it has not. A later `changed` beside another `access` is taken for what chmod, chown or ln
// do.
[[nodiscard]] std::string difference(const FileStamp& before, const FileStamp& now);

// Raises ExitCode::data: the file has changed since the run began, and how.
[[noreturn]] void refuse_changed_file(const std::string& path, const std::string& how);

// Compares an open file with what it was when this was made. Any number of threads.
class ChangeWatch {
 public:
  ChangeWatch(const FileDescriptor& file, const std::string& path);
  // Looks every 10 ms at most. Raises ExitCode::data where the file has changed.
  void check(const FileDescriptor& file, const std::string& path) const;
  // The same, whenever it looked last.
  void check_now(const FileDescriptor& file, const std::string& path) const;
  // At the beginning.
  [[nodiscard]] const FileStamp& stamp() const { return stamp_; }

 private:
  FileStamp stamp_;
  mutable std::mutex mutex_;
  mutable FileStamp latest_;                     // guarded by mutex_
  mutable std::atomic<std::int64_t> looked_at_;  // by a clock of its own, nanoseconds
};

}  // namespace trireme
