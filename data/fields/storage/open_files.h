// SPDX-License-Identifier: Apache-2.0
// The latest used of many files, open for pread: more files than a process may have open. Each is
// compared with what it was when it was indexed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "data/shard/data_file.h"
#include "data/shard/file_stamp.h"

namespace trireme {

class OpenFiles {
 public:
  // `most` of them at a time; 0: half of what this process may have open.
  explicit OpenFiles(std::size_t most = 0);

  struct File {
    explicit File(const std::string& path) : data(path), watch(data.source().descriptor(), path) {}
    DataFile data;
    ChangeWatch watch;
    void check() const { data.require_unchanged(watch); }
  };

  // `path`, whose size is to be `bytes`. Stays open as long as somebody holds it. `modified`: its
  // time of change when it was indexed, perhaps by another host, whose copy has another; 0: not
  // known. Any number of threads. Raises ExitCode::data where the file is gone, another one than it
  // was, or was written to since this object was made.
  [[nodiscard]] std::shared_ptr<const File> open(const std::string& path, std::uint64_t bytes,
                                                 std::int64_t modified = 0);

 private:
  struct Entry {
    std::shared_ptr<const File> file;
    std::list<std::string>::iterator age;
  };

  std::size_t most_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> ages_;                        // the latest used first
  std::unordered_map<std::string, FileStamp> stamps_;  // of every file when it was opened last
  std::int64_t made_at_;                               // as files' times
};

}  // namespace trireme
