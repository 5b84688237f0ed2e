// SPDX-License-Identifier: Apache-2.0
// The latest used of many files, open for pread: more files than a process may have open. Each is
// compared with what it was when it was indexed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "data/shard/data_file.h"

namespace trireme {

class OpenFiles {
 public:
  // `most` of them at a time; 0: half of what this process may have open.
  explicit OpenFiles(std::size_t most = 0);

  struct File {
    explicit File(const std::string& path) : data(path) {}
    DataFile data;
    std::int64_t modified = 0;                        // nanoseconds, when it was first opened
    mutable std::atomic<std::int64_t> looked_at = 0;  // by a clock of its own, nanoseconds
  };

  // `path`, whose size is to be `bytes`. Stays open as long as somebody holds it. Any number of
  // threads. Raises ExitCode::data where the file is gone, or another one than it was.
  [[nodiscard]] std::shared_ptr<const File> open(const std::string& path, std::uint64_t bytes);

  // Raises ExitCode::data where `file` has changed since it was opened first. Looks at it every 10
  // ms at most.
  void check(const File& file, std::uint64_t bytes) const;

 private:
  struct Entry {
    std::shared_ptr<const File> file;
    std::list<std::string>::iterator age;
  };

  std::size_t most_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> ages_;                             // the latest used first
  std::unordered_map<std::string, std::int64_t> modified_;  // of every file once opened
};

}  // namespace trireme
