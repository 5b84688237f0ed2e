// SPDX-License-Identifier: Apache-2.0
#include "data/staging/stage_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "data/staging/piece_ledger.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr mode_t private_directory = 0700;
constexpr std::size_t longest_part = 100;  // of the original file name

// The files of one copy in the directory, which share a name up to the last dot.
struct StoredCopy {
  std::string name;
  std::uint64_t bytes = 0;
  fs::file_time_type changed = fs::file_time_type::min();
};

// Excludes other jobs; the lock ends with the descriptor.
FileDescriptor locked(const OutputDirectory& directory, const std::string& name) {
  FileDescriptor file = directory.open(name, O_RDWR | O_CREAT);
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) system_failed("flock", directory.path_of(name), ExitCode::config);
  }
  return file;
}

std::vector<StoredCopy> copies_in(const std::string& directory) {
  std::map<std::string, StoredCopy> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".copy" && path.extension() != ".pieces") continue;
    std::error_code ignored;
    StoredCopy& copy = found[path.stem().string()];
    copy.name = path.stem().string();
    copy.bytes += entry.file_size(ignored);
    copy.changed = std::max(copy.changed, entry.last_write_time(ignored));
  }
  std::vector<StoredCopy> copies;
  for (auto& [name, copy] : found)
    copies.push_back(std::move(copy));
  std::ranges::sort(copies, {}, &StoredCopy::changed);
  return copies;
}

// False, with errno, on failure. If a file system cannot reserve, a full disk shows during the
// copy.
bool allocate(const FileDescriptor& file, off_t size) {
  if (::ftruncate(file.get(), size) != 0) return false;
  return ::fallocate(file.get(), 0, 0, size) == 0 || errno == EOPNOTSUPP;
}

// Chooses copies and makes room; needs the directory's lock.
class Reservation {
 public:
  Reservation(const OutputDirectory& directory, std::span<const StageSource> sources,
              std::uint64_t limit, bool alone)
      : directory_(directory), sources_(sources), limit_(limit) {
    std::unordered_set<std::string> wanted, paths;
    for (const StageSource& source : sources) {
      wanted.insert(fs::path(source.copy_name()).stem().string());
      paths.insert(source.name_of_path());
    }
    for (StoredCopy& copy : copies_in(directory.path())) {
      if (wanted.contains(copy.name)) continue;
      others_bytes_ += copy.bytes;
      if (!alone) continue;
      const bool stale = paths.contains(fs::path(copy.name).stem().string());
      stale ? remove(copy) : others_.push_back(std::move(copy));
    }
  }

  StagingPlan make() {
    std::uint64_t others_at_least = others_bytes_;
    for (const StoredCopy& copy : others_)
      others_at_least -= copy.bytes;
    for (const StageSource& source : sources_) {
      const std::uint64_t bytes = source.bytes_on_disk();
      const bool fits = limit_ == 0 || (others_at_least <= limit_ &&
                                        plan_.bytes + bytes <= limit_ - others_at_least);
      if (!fits) {
        leave_out(source, "data.stage_gigabytes");
        continue;
      }
      while (limit_ > 0 && others_bytes_ + plan_.bytes + bytes > limit_ && make_way()) {
      }
      if (!reserve(source)) {
        leave_out(source, "the disk");
        continue;
      }
      ++plan_.files;
      plan_.bytes += bytes;
    }
    return std::move(plan_);
  }

 private:
  void remove(const StoredCopy& copy) {
    directory_.remove(copy.name + ".pieces");
    directory_.remove(copy.name + ".copy");
    others_bytes_ -= copy.bytes;
  }
  bool make_way() {
    if (others_.empty()) return false;
    remove(others_.front());
    others_.erase(others_.begin());
    return true;
  }
  void leave_out(const StageSource& source, std::string_view why) {
    directory_.remove(source.ledger_name());
    directory_.remove(source.copy_name());
    if (plan_.files_left_out++ == 0)
      plan_.left_out = fmt::format("{} ({} bytes) is the first file that does not fit into {}",
                                   source.path, source.state.size, why);
  }

  // False if the disk is full or fails.
  bool reserve(const StageSource& source) {
    try {
      const std::string path = directory_.path_of(source.copy_name());
      const FileDescriptor copy = directory_.open(source.copy_name(), O_RDWR | O_CREAT);
      struct stat status {};
      if (::fstat(copy.get(), &status) != 0) system_failed("fstat", path);
      constexpr std::uint64_t block = 512;  // the unit of st_blocks
      const bool whole = static_cast<std::uint64_t>(status.st_size) == source.state.size &&
                         static_cast<std::uint64_t>(status.st_blocks) * block >= source.state.size;
      if (!whole && !plan_.problem.empty()) return false;  // reported once, not retried
      while (!whole && !allocate(copy, static_cast<off_t>(source.state.size))) {
        if (errno == EINTR || (errno == ENOSPC && make_way())) continue;
        write_failed("fallocate", path);
      }
      PieceLedger::prepare(directory_, source.ledger_name(), source.pieces() + 1);
      return true;
    } catch (const Error& error) {
      if (error.code() != ExitCode::internal) throw;
      plan_.problem =
          fmt::format("{} ({} bytes): {}", source.path, source.state.size, error.what());
      return false;
    }
  }

  const OutputDirectory& directory_;
  std::span<const StageSource> sources_;
  std::uint64_t limit_;
  std::uint64_t others_bytes_ = 0;
  std::vector<StoredCopy> others_;  // removable ones, oldest first
  StagingPlan plan_;
};

}  // namespace

std::string StageSource::name_of_path() const {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(path, ignored);
  return fmt::format("{}.{:016x}", whole.filename().string().substr(0, longest_part),
                     checksum_of(whole.string()));
}

std::string StageSource::name() const {
  return fmt::format("{}.{:016x}", name_of_path(),
                     checksum_of(fmt::format("{} {} {}", state.size, state.modified, piece_bytes)));
}

std::uint64_t StageSource::bytes_on_disk() const {
  return state.size + PieceLedger::bytes_for(pieces() + 1);
}

StageDirectory::StageDirectory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  const std::string own = fmt::format("{}/trireme-{}", path, ::geteuid());
  const bool has_parent = !error;
  if (has_parent && ::mkdir(own.c_str(), private_directory) != 0 && errno != EEXIST)
    error.assign(errno, std::generic_category());
  if (error)
    fail(code_of_failed_write(error.value(), ExitCode::config),
         "data.stage: {}: cannot be made: {}; name a directory on a disk of the "
         "host that can be written to, or leave it out",
         has_parent ? own : path, error.message());
  struct stat status {};
  if (::lstat(own.c_str(), &status) != 0) system_failed("lstat", own, ExitCode::config);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail(ExitCode::config,
         "data.stage: {}: must be a directory that only this user can write to; remove it, or name "
         "another data.stage",
         own);
  directory_.emplace(own, ExitCode::config);
}

StagingPlan StageDirectory::reserve(std::span<const StageSource> sources, std::uint64_t limit) {
  return with_context("data.stage", [&] {
    const FileDescriptor turn = locked(*directory_, "lock");
    in_use_ = directory_->open("in_use", O_RDWR | O_CREAT);
    const bool alone = ::flock(in_use_.get(), LOCK_EX | LOCK_NB) == 0;
    StagingPlan plan = Reservation(*directory_, sources, limit, alone).make();
    if (::flock(in_use_.get(), LOCK_SH | LOCK_NB) != 0)
      system_failed("flock", directory_->path_of("in_use"), ExitCode::config);
    return plan;
  });
}

}  // namespace trireme
