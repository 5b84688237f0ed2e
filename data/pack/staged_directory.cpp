// SPDX-License-Identifier: Apache-2.0
#include "data/pack/staged_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <vector>

#include "data/shard/data_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The first entry below `directory` that is neither a shard nor a directory of shards; empty if
// there is none.
std::string foreign_entry(const fs::path& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const bool shard = entry.is_regular_file() && !entry.is_symlink() &&
                       name.starts_with("shard_") &&
                       (name.ends_with(".h5") || name.ends_with(".h5.tmp"));
    if (!shard && (!entry.is_directory() || entry.is_symlink())) return entry.path().string();
  }
  return {};
}

void check_target(const std::string& target, bool replace) {
  if (!fs::exists(target)) return;
  if (!fs::is_directory(target)) {
    fail(ExitCode::config, "{}: is a file; --out must name a directory to create", target);
  }
  if (fs::is_empty(target)) return;
  if (!replace) {
    fail(ExitCode::config,
         "{}: already exists and is not empty; use --force to replace the data set or choose "
         "another --out",
         target);
  }
  if (const std::string other = foreign_entry(target); !other.empty()) {
    fail(ExitCode::config,
         "{}: --force replaces data sets only, and {} is not part of one; choose another --out",
         target, other);
  }
}

constexpr const char* stage_infix = ".partial-";

// "<target>.partial-<pid>-<host>", because other hosts may see the directory.
std::string stage_of(const std::string& target) {
  return fmt::format("{}{}{}-{}", target, stage_infix, ::getpid(), host_name());
}

// Whether the process of `suffix`, "<pid>-<host>", is known to have ended.
bool is_dead(const std::string& suffix) {
  pid_t pid = 0;
  const auto [end, status] = std::from_chars(suffix.data(), suffix.data() + suffix.size(), pid);
  if (status != std::errc{} || pid <= 0 || end != suffix.data() + suffix.find('-')) return false;
  if (suffix.substr(suffix.find('-') + 1) != host_name()) return false;
  if (pid == ::getpid()) return true;  // from another container, or long ago
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

// Removes leftovers of dead packers of this target; reports those that may still run.
void clear_leftovers(const fs::path& target) {
  const std::string prefix = target.filename().string() + stage_infix;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(parent_directory(target.string()))) {
    if (entry.path().filename().string().starts_with(prefix) && !entry.is_symlink() &&
        entry.is_directory())
      found.push_back(entry.path());
  }
  for (const fs::path& path : found) {
    if (is_dead(path.filename().string().substr(prefix.size())) && foreign_entry(path).empty()) {
      fs::remove_all(path);
      log::get("data").warn("{}: removed; it was left by a pack that was killed", path.string());
    } else {
      log::get("data").warn(
          "{}: left by a pack that was interrupted or is still running; delete it if none is "
          "running",
          path.string());
    }
  }
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

}  // namespace

StagedDirectory::StagedDirectory(std::string target, bool replace)
    : target_(without_trailing_slash(std::move(target))), replace_(replace) {
  try {
    check_target(target_, replace);
    fs::create_directories(parent_directory(target_));
    clear_leftovers(target_);
    const std::string stage = stage_of(target_);
    if (!fs::create_directory(stage))
      fail(ExitCode::config, "{}: already exists; remove it, or choose another --out", stage);
    stage_ = stage;
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::config, "{}: cannot make the output directory: {}; choose another --out",
         target_, error.code().message());
  }
}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored;
  if (!stage_.empty()) fs::remove_all(stage_, ignored);
}

std::string StagedDirectory::add(const std::string& name) const {
  const std::string path = stage_ + "/" + name;
  std::error_code error;
  fs::create_directory(path, error);
  if (error) library_failed(fmt::format("mkdir({})", path), error.message());
  return path;
}

void StagedDirectory::commit() {
  sync_path(stage_);
  if (::rename(stage_.c_str(), target_.c_str()) == 0) {
    stage_.clear();
  } else if (errno != ENOTEMPTY && errno != EEXIST) {
    system_failed("rename", target_);
  } else if (!replace_) {
    fail(ExitCode::config,
         "{}: was created by another program in the meantime; nothing was written to it", target_);
  } else if (::renameat2(AT_FDCWD, stage_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) !=
             0) {
    // On file systems that cannot exchange two names the target is absent for a moment, but never
    // half new.
    const std::string old = stage_ + ".old";
    if (::rename(target_.c_str(), old.c_str()) != 0) system_failed("rename", target_);
    if (::rename(stage_.c_str(), target_.c_str()) != 0) system_failed("rename", target_);
    stage_ = old;
  }
  sync_path(parent_directory(target_));
  // The stage's name now holds the replaced data set; the destructor removes it.
}

namespace fs = std::filesystem;

void check_output_options(const std::string& output, const std::string& split,
                          std::optional<double> validation) {
  if (output.empty()) fail(ExitCode::config, "--out: no output directory given");
  if (validation && !(*validation >= 0 && *validation < 1)) {
    fail(ExitCode::config,
         "--validation: {} is not allowed; use a fraction from 0 up to, not including, 1",
         *validation);
  }
  if (!split.empty() && (split.find('/') != std::string::npos || split.starts_with('.'))) {
    fail(ExitCode::config,
         "--split: '{}' is not allowed; use a plain name such as train or validation", split);
  }
  if (!split.empty() && validation) {
    fail(ExitCode::config,
         "--split and --validation exclude each other; --validation writes the splits train and "
         "validation");
  }
}

void check_output_outside(const std::string& output, const std::string& input) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(output, error),
                 outer = fs::weakly_canonical(input, error);
  if (error || !fs::is_directory(outer, error)) return;
  if (std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end()) {
    fail(ExitCode::config, "--out: {} is inside the input {}; choose a directory outside", output,
         input);
  }
}

std::string output_of(const std::string& output, const std::string& split) {
  return split.empty() ? output : (fs::path(output) / split).string();
}

std::vector<std::pair<std::string, std::uint64_t>> split_sizes(std::uint64_t total,
                                                               std::optional<double> validation,
                                                               const std::string& unit) {
  if (!validation) return {{"", total}};
  if (*validation == 0) return {{"train", total}};
  if (total < 2) fail(ExitCode::data, "--validation: {} {} cannot be split in two", total, unit);
  const auto wanted =
      static_cast<std::uint64_t>(std::llround(static_cast<double>(total) * *validation));
  const std::uint64_t last = std::clamp<std::uint64_t>(wanted, 1, total - 1);
  return {{"train", total - last}, {"validation", last}};
}

}  // namespace trireme
