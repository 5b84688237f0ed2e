// SPDX-License-Identifier: Apache-2.0
// In which settings runs differ.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/observe/report/run_data.h"

namespace trireme::report {

struct SettingDifference {
  std::string key{};                  // "train.steps"
  std::vector<std::string> values{};  // by run of the group
};
// Keys of all families of models, or of those that the others lack.
struct SettingGroup {
  std::string families{};           // "gpt2"; empty: of all
  std::vector<std::size_t> runs{};  // indices of those that have the keys, or cannot be read ("?")
  std::vector<SettingDifference> differences{};
};
// Keys of all first, in the order of the table of keys; run.directory, which always differs, is not
// among them. A family's own keys are there with all their values.
[[nodiscard]] std::vector<SettingGroup> differing_settings(std::span<const RunData> runs);

// A line for each of them, behind a blank one and a title; empty where there is none.
[[nodiscard]] std::string text_differences(std::span<const RunData> runs);

}  // namespace trireme::report
