// SPDX-License-Identifier: Apache-2.0
// An LRU cache of files open for pread, for more files than a process may open. Each is compared
// with its state at indexing.
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

// Everything that opens a data file and keeps it open calls this with its descriptor. The kernel
// assigns the lowest free number, so it shows how many are in use. Raises the soft limit to the
// hard one; if little room is left for others (connections, checkpoints, logs) closes the least
// recently used files of all OpenFiles; raises ExitCode::internal if no room is left.
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

  // Opens `path`, which must have `bytes` bytes. Stays open while somebody holds it. `modified`:
  // its modification time at indexing, perhaps on another host with its own copy; 0: unknown.
  // Thread-safe. Raises ExitCode::data if the file is gone, was replaced, or was written to since
  // this object was made.
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
  // Of all OpenFiles; its mutex also guards their entries_.
  struct Ages {
    std::mutex mutex;
    std::list<Kept> files;  // latest used first
  };
  static Ages& ages();
  [[nodiscard]] std::shared_ptr<const File> find(const std::string& path);
  void compare(const File& file, std::uint64_t bytes, std::int64_t modified);

  std::unordered_map<std::string, Age> entries_;
  std::mutex mutex_;
  std::unordered_map<std::string, FileStamp> stamps_;  // of every file when it was last opened
  std::int64_t made_at_;                               // on the clock of file times
};

}  // namespace trireme
