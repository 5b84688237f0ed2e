// SPDX-License-Identifier: Apache-2.0
// A directory that is created atomically.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// Work goes to "<target>.partial-<pid>-<host>" beside the target; commit() syncs it and renames it.
// Without commit() the target is unchanged, and the destructor removes the work.
class StagedDirectory {
 public:
  // Refuses an existing, non-empty target (ExitCode::config), unless `replace` is set and it holds
  // only data sets. Makes parent directories.
  StagedDirectory(std::string target, bool replace);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  [[nodiscard]] const std::string& path() const { return stage_; }
  // Makes a subdirectory and returns its path.
  [[nodiscard]] std::string add(const std::string& name) const;
  void commit();

 private:
  std::string target_;
  std::string stage_;
  bool replace_;
};

// Rules for output directories and splits, shared by all packers.

// Raises ExitCode::config: no output, a fraction outside [0, 1), a split name with a slash, or both
// split and fraction.
void check_output_options(const std::string& output, const std::string& split,
                          std::optional<double> validation);
// Raises ExitCode::config if `output` is inside the directory `input`: packing again would read the
// shards.
void check_output_outside(const std::string& output, const std::string& input);
// output, or output/split.
[[nodiscard]] std::string output_of(const std::string& output, const std::string& split);
// {"", total} without a fraction, {"train", total} for 0, else {"train", total - v}, {"validation",
// v} with v = fraction of total, rounded, both at least 1. Raises ExitCode::data if `total` is too
// small for that.
[[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> split_sizes(
    std::uint64_t total, std::optional<double> validation, const std::string& unit);

}  // namespace trireme
