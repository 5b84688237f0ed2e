// SPDX-License-Identifier: Apache-2.0
// Settings in which runs differ.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/observe/report/run_data.h"

namespace trireme::report {

struct SettingDifference {
  std::string key{};                  // "train.steps"
  std::vector<std::string> values{};  // by run in the group
};
// Keys of all model families, or of those that the others lack.
struct SettingGroup {
  std::string families{};           // "gpt2"; empty: of all
  std::vector<std::size_t> runs{};  // indices of runs that have the keys, or cannot be read ("?")
  std::vector<SettingDifference> differences{};
};
// Common keys first, in the order of the key table, without run.directory, which always differs. A
// family's own keys are listed with all their values.
[[nodiscard]] std::vector<SettingGroup> differing_settings(std::span<const RunData> runs);

// One line each, after a blank line and a title; empty if there are none.
[[nodiscard]] std::string text_differences(std::span<const RunData> runs);

}  // namespace trireme::report
