// SPDX-License-Identifier: Apache-2.0
// The directory of one run: config.yaml (resolved), config.user.yaml (requested), environment.json,
// metrics.jsonl, ranks.jsonl, certificate.jsonl, console.log, checkpoints, weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/telemetry/environment.h"

namespace trireme {

// Made by rank 0 after all other checks. Creates the directory and its parents, refuses one that
// already holds a run unless the run continues, and detects now, not at the first write, that it is
// read-only. Errors are ExitCode::config with the path and the fix.
class RunDirectory {
 public:
  explicit RunDirectory(std::string path, bool goes_on = false);
  // Creates only the directory and missing parents.
  static void create(const std::string& path);
  // Raises ExitCode::config if `path` or a parent is not a directory, or if a file that a run keeps
  // across starts is a link. Read-only.
  static void refuse_a_file(const std::string& path);
  // Left by an earlier run.
  struct Contents {
    bool run = false, trained = false, weights = false, averages = false;
  };
  [[nodiscard]] static Contents contents(const std::string& path);
  // Removes every file that a run writes, and nothing else: supervise/ and foreign files stay.
  // Raises ExitCode::config if something cannot be removed.
  static void remove_run(const std::string& path);
  // Renames the weights and averages of a run that returns to before their step, to names with
  // their step.
  static void set_weights_aside(const std::string& path, std::int64_t step);
  [[nodiscard]] static std::string set_aside_name(std::int64_t step);

  // All are written atomically.
  void write_config(std::string_view yaml) const;
  void write_user_config(std::string_view yaml) const;
  void write_environment(const RunEnvironment& environment) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string metrics_path() const { return path_ + "/metrics.jsonl"; }
  [[nodiscard]] std::string ranks_path() const { return path_ + "/ranks.jsonl"; }
  [[nodiscard]] std::string certificate_path() const { return path_ + "/certificate.jsonl"; }
  // The console's output, of all starts of the run.
  [[nodiscard]] std::string log_path() const { return log_in(path_); }
  [[nodiscard]] static std::string log_in(const std::string& path) { return path + "/console.log"; }
  [[nodiscard]] std::string config_path() const { return config_in(path_); }
  [[nodiscard]] std::string weights_path() const { return weights_in(path_); }
  // Peak bytes per rank by use, once the run has ended.
  [[nodiscard]] static std::string memory_in(const std::string& path) {
    return path + "/memory.json";
  }
  static constexpr std::string_view config_name = "config.yaml";
  [[nodiscard]] static std::string config_in(const std::string& path) {
    return path + "/config.yaml";
  }
  [[nodiscard]] static std::string user_config_in(const std::string& path) {
    return path + "/config.user.yaml";
  }
  [[nodiscard]] static std::string environment_in(const std::string& path) {
    return path + "/environment.json";
  }
  [[nodiscard]] static std::string weights_in(const std::string& path) {
    return path + "/weights.safetensors";
  }
  [[nodiscard]] static std::string averages_in(const std::string& path) {
    return path + "/weights_average.safetensors";
  }
  [[nodiscard]] static std::string checkpoints_in(const std::string& path) {
    return path + "/checkpoints";
  }
  [[nodiscard]] static std::string traces_in(const std::string& path) { return path + "/trace"; }

 private:
  std::string path_;
};

}  // namespace trireme
