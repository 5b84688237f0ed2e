// SPDX-License-Identifier: Apache-2.0
// The config of `trireme train`: a YAML file, or a run, which stands for what it was asked for.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace trireme {

struct RequestedConfig {
  Config config;
  Provenance where;
  std::string yaml;  // for config.user.yaml: what was asked for, with what is "auto" left so
};

// `path`: a YAML file, or a run's directory for the config.user.yaml in it (config.yaml in runs of
// older versions), with that directory as run.directory. A run's config.yaml is resolved for a
// number of ranks: on another number of `ranks` the config.user.yaml beside it is read in its
// place, which the log says. Raises ExitCode::config.
[[nodiscard]] RequestedConfig load_requested(const std::string& path,
                                             std::vector<std::string> overrides, int ranks);

// config.yaml of a run, for what reads a run that is there. Raises ExitCode::config where `path` is
// no run's directory.
[[nodiscard]] std::string config_file_of_run(const std::string& path);

}  // namespace trireme
