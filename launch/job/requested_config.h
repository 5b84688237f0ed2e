// SPDX-License-Identifier: Apache-2.0
// The config of `trireme train`: a YAML file, or a run, which means the config it was started with.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace trireme {

struct RequestedConfig {
  Config config;
  Provenance where;
  std::string yaml;  // for config.user.yaml: as requested, with "auto" unresolved
};

// `path`: a YAML file, or a run directory: then its config.user.yaml (config.yaml in runs of older
// versions), with that directory as run.directory. A run's config.yaml is resolved for a number of
// ranks: for another number of `ranks` the config.user.yaml beside it is read instead, which is
// logged. Raises ExitCode::config.
[[nodiscard]] RequestedConfig load_requested(const std::string& path,
                                             std::vector<std::string> overrides, int ranks);

// config.yaml of an existing run. Raises ExitCode::config if `path` is not a run directory.
[[nodiscard]] std::string config_file_of_run(const std::string& path);

}  // namespace trireme
