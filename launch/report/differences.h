// SPDX-License-Identifier: Apache-2.0
// In which settings runs differ.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/report/run_data.h"

namespace trireme::report {

struct SettingDifference {
  std::string key{};                  // "train.steps"
  std::vector<std::string> values{};  // by run; "?" of one whose config cannot be read
};
// In the order of the table of keys; run.directory, which always differs, is not among them.
[[nodiscard]] std::vector<SettingDifference> differing_settings(std::span<const RunData> runs);

// A line for each of them, behind a blank one and a title; empty where there is none.
[[nodiscard]] std::string text_differences(std::span<const RunData> runs);

}  // namespace trireme::report
