// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/directory.h"

#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/restore/verify.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void check(std::string_view call, const std::string& path, const std::error_code& error) {
  if (error)
    library_failed(fmt::format("{}({})", call, path), error.message(), ExitCode::checkpoint);
}

void rename_directory(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) system_failed("rename", to, ExitCode::checkpoint);
}

// A superseded job may still write its last file there, or remove the directory itself.
void remove_tree(const std::string& path) {
  std::error_code error, ignored;
  const auto disturbed = [&] {
    return error == std::errc::no_such_file_or_directory || error == std::errc::directory_not_empty;
  };
  do {
    fs::remove_all(path, error);
  } while (disturbed() && fs::exists(path, ignored));
  if (!disturbed()) check("remove", path, error);
}

void remove_directory(const std::string& path) {
  const std::string doomed = path + std::string(deleting_suffix);
  remove_tree(doomed);  // from an earlier attempt
  rename_directory(path, doomed);
  remove_tree(doomed);
}

}  // namespace

std::optional<std::int64_t> step_of(std::string_view name) {
  constexpr std::string_view prefix = "step_";
  std::int64_t step = -1;
  if (!name.starts_with(prefix)) return {};
  const auto [end, error] =
      std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || step < 0 || step_directory_name(step) != name) return {};
  return step;
}

bool is_leftover(std::string_view name) {
  for (const std::string_view suffix : {partial_suffix, deleting_suffix}) {
    if (!name.ends_with(suffix)) continue;
    std::string_view step = name.substr(0, name.size() - suffix.size());
    const auto dot = step.find('.');
    const std::string_view whose = dot == std::string_view::npos ? "" : step.substr(dot);
    const bool known =
        whose.empty() || (suffix == partial_suffix && whose.starts_with(".e") && whose.size() > 2 &&
                          whose.find_first_not_of("0123456789", 2) == std::string_view::npos);
    return known && step_of(step.substr(0, dot)).has_value();
  }
  return false;
}

std::vector<StepDirectory> list_checkpoints(const std::string& directory) {
  std::vector<StepDirectory> found;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return {};
  check("opendir", directory, error);
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    const auto step = step_of(entry->path().filename().string());
    if (step) found.push_back({*step, entry->path().string()});
  }
  check("readdir", directory, error);
  std::ranges::sort(found, {}, &StepDirectory::step);
  return found;
}

OutputDirectory checkpoint_directory(const std::string& directory) {
  return OutputDirectory(parent_directory(directory), ExitCode::checkpoint)
      .subdirectory(fs::path(directory).filename().string());
}

void prepare_checkpoint_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(parent_directory(directory), error);
  check("mkdir", directory, error);
  static_cast<void>(checkpoint_directory(directory));
  std::vector<std::string> leftovers;
  for (fs::directory_iterator entry(directory, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (is_leftover(entry->path().filename().string())) leftovers.push_back(entry->path().string());
  }
  check("readdir", directory, error);
  for (const std::string& path : leftovers) {
    log::get("checkpoint").info("{}: left by a process that ended; removed", path);
    remove_tree(path);
  }
}

void commit_directory(const std::string& partial, const std::string& path) {
  sync_path(partial, ExitCode::checkpoint);
  if (fs::exists(path)) remove_directory(path);
  rename_directory(partial, path);
  sync_path(parent_directory(path), ExitCode::checkpoint);
}

void remove_old_checkpoints(const std::string& directory, std::int64_t keep,
                            std::int64_t keep_every, std::int64_t newest,
                            const std::set<std::int64_t>& unusable, std::int64_t best) {
  try {
    std::vector<StepDirectory> all = list_checkpoints(directory);
    std::ranges::reverse(all);
    std::int64_t usable = 0;
    for (const StepDirectory& found : all) {
      if (found.step > newest) continue;
      if (usable >= std::max<std::int64_t>(keep, 1)) {
        const bool kept = keep_every > 0 && found.step % keep_every == 0;
        if (!kept && found.step != best) remove_directory(found.path);
      } else if (found.step == newest ||
                 (!unusable.contains(found.step) && looks_complete(found.path))) {
        ++usable;
      }
    }
  } catch (const std::exception& error) {
    log::get("checkpoint").warn("an old checkpoint could not be removed: {}", error.what());
  }
}

}  // namespace trireme
