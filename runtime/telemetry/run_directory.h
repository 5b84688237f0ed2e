// SPDX-License-Identifier: Apache-2.0
// The directory of one run: config.yaml (resolved), environment.json, metrics.jsonl,
// console.log, weights.
#pragma once

#include <string>
#include <string_view>

#include "runtime/telemetry/environment.h"

namespace trireme {

// Made by rank 0 before anything is allocated. Creates the directory and its parents, refuses one
// that already holds a run unless the run goes on, and finds out now, not at the first write, that
// the place is read-only. Errors are ExitCode::config, name the path and say what to do.
class RunDirectory {
 public:
  explicit RunDirectory(std::string path, bool goes_on = false);
  // ExitCode::config where `path`, or a directory that it would lie in, is something else than a
  // directory. Touches nothing.
  static void refuse_a_file(const std::string& path);
  // What an earlier run left there.
  struct Contents {
    bool run = false, checkpoints = false, weights = false;
  };
  [[nodiscard]] static Contents contents(const std::string& path);

  // Both files are written atomically.
  void write_config(std::string_view yaml) const;
  void write_environment(const RunEnvironment& environment) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string metrics_path() const { return path_ + "/metrics.jsonl"; }
  // What the console showed, of all starts of the run.
  [[nodiscard]] std::string log_path() const { return log_in(path_); }
  [[nodiscard]] static std::string log_in(const std::string& path) { return path + "/console.log"; }
  [[nodiscard]] std::string config_path() const { return path_ + "/config.yaml"; }
  [[nodiscard]] std::string weights_path() const { return path_ + "/weights.safetensors"; }

 private:
  std::string path_;
};

}  // namespace trireme
