// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void create_with_parents(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    fail(code_of_failed_write(error.value(), ExitCode::config),
         "run.directory: {}: cannot be created: {}; choose another place", path, error.message());
  }
  if (!fs::is_directory(path, error)) {
    fail(ExitCode::config, "run.directory: {}: exists and is not a directory; choose another place",
         path);
  }
}

constexpr std::array files_of_a_run = {"config.yaml", "metrics.jsonl"};

bool has_file(const std::string& path, const char* name) {
  std::error_code error;
  return fs::exists(fs::path(path) / name, error);
}

void refuse_an_earlier_run(const std::string& path) {
  for (const char* const name : files_of_a_run) {
    if (!has_file(path, name)) continue;
    fail(ExitCode::config,
         "run.directory: {}: already holds a run ({} is there); choose another run.directory, or "
         "start from scratch in this one with --overwrite",
         path, name);
  }
}

// Permission bits are not enough (root, read-only mounts, quotas): writes a byte.
void probe_writing(const std::string& path) {
  const std::string probe = path + "/.writable";
  ::unlink(probe.c_str());  // of a killed run, or a link that would be followed
  const FileDescriptor file(
      ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  const bool written = file.is_open() && ::write(file.get(), "x", 1) == 1;
  const int reason = errno;
  if (file.is_open()) ::unlink(probe.c_str());
  if (!written) {
    fail(code_of_failed_write(reason, ExitCode::config),
         "run.directory: {}: cannot be written to: {}; choose another place", path,
         std::strerror(reason));
  }
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

// Files that a run writes, whatever their content.
bool is_run_file(const std::string& name) {
  static constexpr std::array names = {
      "config.yaml", "config.user.yaml", "environment.json", "data.json",        "metrics.jsonl",
      "console.log", "metrics.prom",     "start_times.json", "time_split.jsonl", "report.html",
      "ranks.jsonl", "memory.json",      "certificate.jsonl"};
  return std::ranges::find(names, name) != names.end() ||
         (name.starts_with("weights") && name.ends_with(".safetensors")) ||
         (name.starts_with("collectives.rank") && name.ends_with(".txt")) ||
         name.starts_with("events.out.tfevents.");
}

// step_10.json.gz, steps_10-12.kineto: see runtime/train/trace/write_trace.h
bool is_trace(const std::string& name) {
  return (name.starts_with("step_") || name.starts_with("steps_")) &&
         (name.ends_with(".json.gz") || name.ends_with(".kineto"));
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

void take_away(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);  // of a link, only the link
  if (error)
    fail(ExitCode::config, "run.directory: {}: cannot be removed: {}", path.string(),
         error.message());
}

}  // namespace

void RunDirectory::remove_run(const std::string& path) {
  // The state goes first: a directory that a kill leaves here has none, and is replaced.
  for (const fs::path& entry : entries_of(checkpoints_in(path))) {
    if (entry.filename().string().starts_with("step_")) take_away(entry);
  }
  for (const fs::path& entry : entries_of(path)) {
    if (is_run_file(entry.filename().string())) take_away(entry);
  }
  for (const fs::path& entry : entries_of(traces_in(path))) {
    if (is_trace(entry.filename().string())) take_away(entry);
  }
  std::error_code not_empty;
  fs::remove(traces_in(path), not_empty);
}

std::string RunDirectory::set_aside_name(std::int64_t step) {
  return fmt::format("weights.step_{:08}.safetensors", step);
}

void RunDirectory::set_weights_aside(const std::string& path, std::int64_t step) {
  std::error_code error;
  fs::rename(weights_in(path), path + "/" + set_aside_name(step), error);
  if (error)
    fail(ExitCode::config, "run.directory: {}: cannot be renamed: {}", weights_in(path),
         error.message());
  const std::string average = averages_in(path);
  if (fs::exists(average, error))
    fs::rename(average, fmt::format("{}/weights_average.step_{:08}.safetensors", path, step),
               error);
}

void RunDirectory::refuse_a_file(const std::string& path) {
  for (const char* const name : {"owner.lock", "metrics.jsonl", "ranks.jsonl", "certificate.jsonl",
                                 "console.log", "checkpoints", "trace"})
    refuse_link(path + "/" + name, ExitCode::config);
  for (fs::path place = without_trailing_slash(path); !place.empty(); place = place.parent_path()) {
    std::error_code error;
    const fs::file_status status = fs::status(place, error);
    if (fs::is_directory(status)) return;
    if (fs::exists(status)) {
      fail(ExitCode::config,
           "run.directory: {}: {} exists and is not a directory; choose another place", path,
           place == fs::path(path) ? "it" : place.string());
    }
    if (place == place.parent_path()) return;
  }
}

RunDirectory::Contents RunDirectory::contents(const std::string& path) {
  const auto has = [&](const char* name) { return has_file(path, name); };
  return {.run = std::ranges::any_of(files_of_a_run, has),
          .trained = has("metrics.jsonl"),
          .weights = has("weights.safetensors"),
          .averages = has("weights_average.safetensors")};
}

void RunDirectory::create(const std::string& path) {
  refuse_a_file(path);
  create_with_parents(path);
}

RunDirectory::RunDirectory(std::string path, bool goes_on)
    : path_(without_trailing_slash(std::move(path))) {
  if (path_.empty()) fail(ExitCode::config, "run.directory: is empty; name a directory");
  create_with_parents(path_);
  if (!goes_on) refuse_an_earlier_run(path_);
  probe_writing(path_);
}

void RunDirectory::write_config(std::string_view yaml) const {
  write_file(config_path(), yaml, ExitCode::internal);
}

void RunDirectory::write_user_config(std::string_view yaml) const {
  write_file(user_config_in(path_), yaml, ExitCode::internal);
}

void RunDirectory::write_environment(const RunEnvironment& environment) const {
  write_file(environment_in(path_), environment_json(environment), ExitCode::internal);
}

}  // namespace trireme
