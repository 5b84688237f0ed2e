// SPDX-License-Identifier: Apache-2.0
// Rules for output directories and splits, shared by all packers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

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
