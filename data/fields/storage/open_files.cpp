// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

namespace trireme {
namespace {

std::size_t room_for_files() {
  constexpr rlim_t fewest = 16, most = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return fewest;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 2, fewest, most));
}

}  // namespace

OpenFiles::OpenFiles(std::size_t most)
    : most_(most > 0 ? most : room_for_files()),
      made_at_(std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()) {}

std::shared_ptr<const OpenFiles::File> OpenFiles::open(const std::string& path, std::uint64_t bytes,
                                                       std::int64_t modified) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(path); found != entries_.end()) {
      ages_.splice(ages_.begin(), ages_, found->second.age);
      return found->second.file;
    }
  }
  auto file = std::make_shared<const File>(path);
  const FileStamp& stamp = file->watch.stamp();
  if (stamp.size != bytes)
    refuse_changed_file(path, fmt::format("it has {} bytes and had {}", stamp.size, bytes));
  if (modified != 0 && stamp.modified != modified && stamp.modified > made_at_)
    refuse_changed_file(path, "its time of change is another one");
  const std::lock_guard lock(mutex_);
  FileStamp& before = stamps_.try_emplace(path, stamp).first->second;
  if (const std::string how = difference(before, stamp); !how.empty())
    refuse_changed_file(path, how);
  before = stamp;
  const auto [entry, fresh] = entries_.try_emplace(path);
  if (!fresh) return entry->second.file;  // of another thread meanwhile
  ages_.push_front(path);
  entry->second = {file, ages_.begin()};
  if (entries_.size() > most_) {
    entries_.erase(ages_.back());
    ages_.pop_back();
  }
  return file;
}

}  // namespace trireme
