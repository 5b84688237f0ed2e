// SPDX-License-Identifier: Apache-2.0
#include "launch/job/requested_config.h"

#include <filesystem>

#include "models/config.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

RequestedConfig load(const std::string& file, const std::vector<std::string>& overrides) {
  RequestedConfig requested;
  requested.config = load_config(file, overrides, &requested.where);
  requested.yaml = requested_yaml(requested.config, requested.where);
  return requested;
}

bool is_for(const ParallelConfig& parallel, int ranks) {
  return parallel.data == 0 || parallel.ranks() == ranks;
}

}  // namespace

std::string config_file_of_run(const std::string& path) {
  std::error_code ignored;
  const std::string file = RunDirectory::config_in(path);
  const char* const problem = !exists(path)                      ? "there is no such directory"
                              : !fs::is_directory(path, ignored) ? "it is a file"
                              : !exists(file)                    ? "it holds no config.yaml"
                                                                 : nullptr;
  if (problem != nullptr)
    fail(ExitCode::config,
         "{}: is not a run directory: {}; give the run.directory of the training run", path,
         problem);
  return file;
}

RequestedConfig load_requested(const std::string& path, std::vector<std::string> overrides,
                               int ranks) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const std::string run = fs::absolute(path).lexically_normal().string();
    const std::string user = RunDirectory::user_config_in(path);
    const std::string file = exists(user) ? user : RunDirectory::config_in(path);
    if (!exists(file)) {
      fail(ExitCode::config,
           "{}: is a directory that holds no run ({} is not there); give a YAML file or a run's "
           "directory",
           path, file);
    }
    overrides.insert(overrides.begin(), "run.directory=" + run);
    return load(file, overrides);
  }
  RequestedConfig given = load(path, overrides);
  const fs::path file(path);
  const std::string user = RunDirectory::user_config_in(file.parent_path().string());
  if (file.filename() != RunDirectory::config_name || !exists(user)) return given;
  RequestedConfig asked = load(user, overrides);
  if (!is_for(given.config.parallel, ranks)) {
    log::get("config").info("{} is resolved for another number of ranks: reading {} instead", path,
                            user);
    return asked;
  }
  given.yaml = std::move(asked.yaml);
  return given;
}

}  // namespace trireme
