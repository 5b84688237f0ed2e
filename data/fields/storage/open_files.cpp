// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>

#include "data/fields/storage/field_index.h"

namespace trireme {
namespace {

std::size_t room_for_files() {
  constexpr rlim_t fewest = 16, most = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return fewest;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 2, fewest, most));
}

// To a few milliseconds, for a few nanoseconds.
std::int64_t coarse_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;
  return now.tv_sec * nanoseconds_per_second + now.tv_nsec;
}

[[noreturn]] void changed(const std::string& path, std::string_view how) {
  fail(
      ExitCode::data,
      "{}: has changed since the run began ({}): samples of before and after would not be the same "
      "data; restore it, or begin a run anew",
      path, how);
}

void compare(const FileState& state, const std::string& path, std::uint64_t bytes) {
  if (state.size == bytes) return;
  changed(path, fmt::format("it has {} bytes and had {}", state.size, bytes));
}

}  // namespace

OpenFiles::OpenFiles(std::size_t most) : most_(most > 0 ? most : room_for_files()) {}

std::shared_ptr<const OpenFiles::File> OpenFiles::open(const std::string& path,
                                                       std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(path); found != entries_.end()) {
      ages_.splice(ages_.begin(), ages_, found->second.age);
      return found->second.file;
    }
  }
  auto file = std::make_shared<File>(path);
  file->looked_at = coarse_time();
  const FileState state = state_of_file(file->data.source().descriptor(), path);
  compare(state, path, bytes);
  file->modified = state.modified;
  const std::lock_guard lock(mutex_);
  if (modified_.try_emplace(path, file->modified).first->second != file->modified)
    changed(path, "its time of change is another one");
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

void OpenFiles::check(const File& file, std::uint64_t bytes) const {
  constexpr std::int64_t look_again = 10'000'000;  // nanoseconds
  const std::int64_t now = coarse_time();
  if (now - file.looked_at.load(std::memory_order_relaxed) < look_again) return;
  file.looked_at.store(now, std::memory_order_relaxed);
  const std::string& path = file.data.path();
  const FileState state = state_of_file(file.data.source().descriptor(), path);
  compare(state, path, bytes);
  if (state.modified != file.modified) changed(path, "its time of change is another one");
}

}  // namespace trireme
