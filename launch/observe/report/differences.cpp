// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/differences.h"

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

std::vector<SettingGroup> differing_settings(std::span<const RunData> runs) {
  std::vector<std::string> keys;
  std::vector<std::size_t> all;
  for (const RunData& run : runs) {
    all.push_back(all.size());
    for (const auto& [key, value] : run.settings)
      if (key != "run.directory" && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  std::vector<SettingGroup> groups{{.runs = all}};
  for (const std::string& key : keys) {
    SettingDifference one{.key = key};
    std::vector<std::size_t> having;
    std::set<std::string> known, families;
    bool lacking = false;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::string* const value = value_of(runs[i].settings, key);
      const bool readable = !runs[i].settings.empty();
      if (value == nullptr && readable) {
        lacking = true;
        continue;
      }
      having.push_back(i);
      one.values.push_back(readable ? *value : "?");
      if (!readable) continue;
      known.insert(*value);
      families.insert(runs[i].family);
    }
    if (!lacking && known.size() < 2) continue;
    const std::string whose = lacking ? fmt::format("{}", fmt::join(families, ", ")) : "";
    auto group = std::ranges::find(groups, whose, &SettingGroup::families);
    if (group == groups.end())
      group = groups.insert(groups.end(), {.families = whose, .runs = having});
    group->differences.push_back(std::move(one));
  }
  std::erase_if(groups, [](const SettingGroup& group) { return group.differences.empty(); });
  return groups;
}

std::string text_differences(std::span<const RunData> runs) {
  std::string text;
  for (const SettingGroup& group : differing_settings(runs)) {
    text += group.families.empty() ? "\nsettings that differ\n"
                                   : fmt::format("\nsettings of {} alone\n", group.families);
    for (const SettingDifference& one : group.differences)
      text += fmt::format("{:<28}  {}\n", one.key, fmt::join(one.values, " | "));
  }
  return text;
}

}  // namespace trireme::report
