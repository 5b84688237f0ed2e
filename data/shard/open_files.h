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

// Whatever opens a file of data to keep it open calls this with its descriptor, the lowest that was
// free, which so tells how many are in use, by whomever. Raises the soft limit to the hard one;
// where little room is left for others (connections, checkpoints, logs) closes the files of all
// OpenFiles that were not used for longest; raises ExitCode::internal where none is left.
void leave_room_for_others(int descriptor, const std::string& path);

class OpenFiles {
 public:
  OpenFiles();
  ~OpenFiles();
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

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
  friend void leave_room_for_others(int descriptor, const std::string& path);
  struct Kept {
    OpenFiles* owner;
    std::string path;
    std::shared_ptr<const File> file;
  };
  using Age = std::list<Kept>::iterator;
  // Of all objects of this class; its mutex guards their entries_ too.
  struct Ages {
    std::mutex mutex;
    std::list<Kept> files;  // the latest used first
  };
  static Ages& ages();
  [[nodiscard]] std::shared_ptr<const File> find(const std::string& path);
  void compare(const File& file, std::uint64_t bytes, std::int64_t modified);

  std::unordered_map<std::string, Age> entries_;
  std::mutex mutex_;
  std::unordered_map<std::string, FileStamp> stamps_;  // of every file when it was opened last
  std::int64_t made_at_;                               // as files' times
};

}  // namespace trireme
