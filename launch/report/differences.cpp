// SPDX-License-Identifier: Apache-2.0
#include "launch/report/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace trireme::report {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

const std::string* value_of(const Settings& settings, const std::string& key) {
  const auto found = std::ranges::find(settings, key, &Settings::value_type::first);
  return found == settings.end() ? nullptr : &found->second;
}

}  // namespace

std::vector<SettingDifference> differing_settings(std::span<const RunData> runs) {
  std::vector<std::string> keys;
  for (const RunData& run : runs) {
    for (const auto& [key, value] : run.settings)
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  std::vector<SettingDifference> differences;
  for (const std::string& key : keys) {
    if (key == "run.directory") continue;
    SettingDifference one{.key = key};
    std::set<std::string> known;
    for (const RunData& run : runs) {
      const std::string* const value = value_of(run.settings, key);
      // A family of models has keys that another lacks.
      one.values.push_back(value != nullptr ? *value : run.settings.empty() ? "?" : "-");
      if (!run.settings.empty()) known.insert(one.values.back());
    }
    if (known.size() > 1) differences.push_back(std::move(one));
  }
  return differences;
}

std::string text_differences(std::span<const RunData> runs) {
  std::string text;
  for (const SettingDifference& one : differing_settings(runs))
    text += fmt::format("{}{:<28}  {}\n", text.empty() ? "\nsettings that differ\n" : "", one.key,
                        fmt::join(one.values, " | "));
  return text;
}

}  // namespace trireme::report
