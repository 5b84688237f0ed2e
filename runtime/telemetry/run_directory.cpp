// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/run_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void create_with_parents(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    fail(ExitCode::config, "run.directory: {}: cannot be created: {}; choose another place", path,
         error.message());
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
         "run.directory: {}: already holds a run ({} is there); choose another run.directory or "
         "remove this one",
         path, name);
  }
}

// Permission bits say little (root, read-only mounts, quotas): write a byte and see.
void probe_writing(const std::string& path) {
  const std::string probe = path + "/.writable";
  const FileDescriptor file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  const bool written = file.is_open() && ::write(file.get(), "x", 1) == 1;
  const int reason = errno;
  if (file.is_open()) ::unlink(probe.c_str());
  if (!written) {
    fail(ExitCode::config, "run.directory: {}: cannot be written to: {}; choose another place",
         path, std::strerror(reason));
  }
}

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

}  // namespace

void RunDirectory::refuse_a_file(const std::string& path) {
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
          .checkpoints = has("checkpoints"),
          .weights = has("weights.safetensors")};
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

void RunDirectory::write_environment(const RunEnvironment& environment) const {
  write_file(path_ + "/environment.json", environment_json(environment), ExitCode::internal);
}

}  // namespace trireme
