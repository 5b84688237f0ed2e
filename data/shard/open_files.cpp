// SPDX-License-Identifier: Apache-2.0
#include "data/shard/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace trireme {
namespace {

// The soft limit of descriptors, raised.
std::size_t raised_limit() {
  constexpr rlim_t most = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) system_failed("getrlimit", "RLIMIT_NOFILE");
  if (const rlim_t wanted = std::min(limit.rlim_max, most); limit.rlim_cur < wanted) {
    const rlimit raised{wanted, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return static_cast<std::size_t>(std::min(limit.rlim_cur, most));
}

}  // namespace

OpenFiles::Ages& OpenFiles::ages() {
  static Ages& all = *new Ages;  // never destroyed: owners may outlive it
  return all;
}

void leave_room_for_others(int descriptor, const std::string& path) {
  constexpr std::size_t comfortable = 32, fewest = 16;  // left for others
  const std::size_t limit = raised_limit(), others = std::max(limit / 4, comfortable);
  std::size_t used = static_cast<std::size_t>(descriptor) + 1;
  if (used + others <= limit) return;
  std::vector<std::shared_ptr<const OpenFiles::File>> closed;  // destroyed after unlocking
  OpenFiles::Ages& ages = OpenFiles::ages();
  const std::lock_guard lock(ages.mutex);
  for (; used + others > limit && !ages.files.empty(); --used) {
    OpenFiles::Kept& oldest = ages.files.back();
    oldest.owner->entries_.erase(oldest.path);
    closed.push_back(std::move(oldest.file));
    ages.files.pop_back();
  }
  if (used + fewest > limit) too_many_open_files(path);
}

OpenFiles::OpenFiles()
    : made_at_(std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()) {}

OpenFiles::~OpenFiles() {
  const std::lock_guard lock(ages().mutex);
  for (const auto& [path, age] : entries_)
    ages().files.erase(age);
}

std::shared_ptr<const OpenFiles::File> OpenFiles::find(const std::string& path) {
  const std::lock_guard lock(ages().mutex);
  const auto found = entries_.find(path);
  if (found == entries_.end()) return nullptr;
  ages().files.splice(ages().files.begin(), ages().files, found->second);
  return found->second->file;
}

void OpenFiles::compare(const File& file, std::uint64_t bytes, std::int64_t modified) {
  const std::string& path = file.data.path();
  const FileStamp& stamp = file.watch.stamp();
  if (stamp.size != bytes)
    refuse_changed_file(path, fmt::format("it has {} bytes, but had {}", stamp.size, bytes));
  if (modified != 0 && stamp.modified != modified && stamp.modified > made_at_)
    refuse_changed_file(path, "its mtime has changed");
  const std::lock_guard lock(mutex_);
  FileStamp& before = stamps_.try_emplace(path, stamp).first->second;
  if (const std::string how = difference(before, stamp); !how.empty())
    refuse_changed_file(path, how);
  before = stamp;
}

std::shared_ptr<const OpenFiles::File> OpenFiles::open(const std::string& path, std::uint64_t bytes,
                                                       std::int64_t modified) {
  if (auto kept = find(path)) return kept;
  auto file = std::make_shared<const File>(path);
  compare(*file, bytes, modified);
  const std::lock_guard lock(ages().mutex);
  const auto [entry, fresh] = entries_.try_emplace(path);
  if (!fresh) return entry->second->file;  // opened by another thread meanwhile
  ages().files.push_front({this, path, file});
  entry->second = ages().files.begin();
  return file;
}

}  // namespace trireme
