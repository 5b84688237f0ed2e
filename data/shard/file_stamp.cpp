// SPDX-License-Identifier: Apache-2.0
#include "data/shard/file_stamp.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t nanoseconds = 1'000'000'000;

std::int64_t in_nanoseconds(const timespec& time) {
  return time.tv_sec * nanoseconds + time.tv_nsec;
}

FileStamp stamp_from(const struct stat& found) {
  return {.inode = found.st_ino,
          .size = static_cast<std::uint64_t>(found.st_size),
          .modified = in_nanoseconds(found.st_mtim),
          .changed = in_nanoseconds(found.st_ctim),
          .access = checksum_of(fmt::format("{} {} {} {}", found.st_mode, found.st_uid,
                                            found.st_gid, found.st_nlink))};
}

// Precise to some milliseconds, in some nanoseconds.
std::int64_t coarse_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return in_nanoseconds(now);
}

}  // namespace

FileStamp stamp_of_file(const FileDescriptor& file, const std::string& path) {
  struct stat found = {};
  if (::fstat(file.get(), &found) != 0) system_failed("fstat", path, ExitCode::data);
  return stamp_from(found);
}

FileStamp stamp_of_file(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) system_failed("stat", path, ExitCode::data);
  if (!S_ISREG(found.st_mode)) refuse_irregular_file(path, ExitCode::data);
  return stamp_from(found);
}

std::string difference(const FileStamp& before, const FileStamp& now) {
  if (now.size != before.size)
    return fmt::format("it has {} bytes, but had {}", now.size, before.size);
  if (now.modified != before.modified) return "its mtime has changed";
  if (now.inode != before.inode) return "it was replaced by another file";
  if (now.changed != before.changed && now.access == before.access)
    return "its ctime has changed, as if it was written to and its mtime was set back";
  return "";
}

void refuse_changed_file(const std::string& path, const std::string& how) {
  fail(ExitCode::data,
       "{}: has changed since the run began ({}): samples before and after would not be the same "
       "data; restore it, or start a new run",
       path, how);
}

ChangeWatch::ChangeWatch(const FileDescriptor& file, const std::string& path)
    : stamp_(stamp_of_file(file, path)), latest_(stamp_), looked_at_(coarse_time()) {}

void ChangeWatch::check(const FileDescriptor& file, const std::string& path) const {
  constexpr std::int64_t look_again = 10'000'000;  // nanoseconds
  const std::int64_t now = coarse_time();
  if (now - looked_at_.load(std::memory_order_relaxed) < look_again) return;
  looked_at_.store(now, std::memory_order_relaxed);
  check_now(file, path);
}

void ChangeWatch::check_now(const FileDescriptor& file, const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const FileStamp found = stamp_of_file(file, path);
  if (const std::string how = difference(latest_, found); !how.empty())
    refuse_changed_file(path, how);
  latest_ = found;
}

}  // namespace trireme
