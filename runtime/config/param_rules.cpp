// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/param_rules.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <set>
#include <sstream>

#include "runtime/config/config.h"
#include "runtime/config/suggest.h"

namespace trireme {
namespace {

// One "rate=0.1" of a group.
bool read_setting(const std::string& text, ParamGroup& group) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return false;
  float value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, value);
  if (error != std::errc() || stop != end || !(value >= 0) || value > 1e6F) return false;
  const std::string key = text.substr(0, equals);
  if (key == "rate") group.rate = value;
  if (key == "decay") group.decay = value;
  return key == "decay" || (key == "rate" && value > 0);
}

bool read_group(const std::string& text, ParamGroup& group) {
  const std::size_t colon = text.rfind(": ");
  if (colon == std::string::npos || colon == 0) return false;
  group.pattern = text.substr(0, colon);
  std::istringstream settings(text.substr(colon + 2));
  std::string setting;
  int count = 0;
  for (; settings >> setting; ++count)
    if (!read_setting(setting, group)) return false;
  return count > 0;
}

}  // namespace

bool name_matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::string near_names(const std::string& pattern, std::span<const std::string> names) {
  std::set<std::string> known, firsts;
  for (const std::string& name : names) {
    known.insert(name);
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      known.insert(name.substr(0, dot) + ".*");
    firsts.insert(name.substr(0, name.find('.')) + (name.find('.') < name.size() ? ".*" : ""));
  }
  const std::vector<std::string_view> words(known.begin(), known.end());
  if (const std::string_view near = config::closest(pattern, words); !near.empty())
    return fmt::format("did you mean {}?", near);
  return fmt::format("there are {}", fmt::join(firsts, ", "));
}

const std::string* unmatched(std::span<const std::string> patterns,
                             std::span<const std::string> names) {
  const auto found = std::ranges::find_if(patterns, [&](const std::string& pattern) {
    return std::ranges::none_of(
        names, [&](const std::string& name) { return name_matches(pattern, name); });
  });
  return found == patterns.end() ? nullptr : &*found;
}

std::vector<ParamGroup> param_groups(std::span<const std::string> texts, std::string& problem) {
  std::vector<ParamGroup> groups;
  for (const std::string& text : texts) {
    if (read_group(text, groups.emplace_back())) continue;
    problem = fmt::format(
        "\"{}\" is not PATTERN: rate=X decay=Y, with one or both: X above 0 is a share of the "
        "learning rate, Y of the weight decay; write such as \"head.*: rate=10 decay=0\"",
        text);
    return {};
  }
  return groups;
}

bool ParamRules::freezes(const std::string& name, bool adapted) const {
  const auto matches = [&](const std::string& pattern) { return name_matches(pattern, name); };
  return (adapted && std::ranges::none_of(beside, matches)) || std::ranges::any_of(frozen, matches);
}

const ParamGroup* ParamRules::group_of(const std::string& name) const {
  const auto found = std::find_if(groups.rbegin(), groups.rend(), [&](const ParamGroup& group) {
    return name_matches(group.pattern, name);
  });
  return found == groups.rend() ? nullptr : &*found;
}

std::string_view whole_of(std::string_view target) {
  if (target == "query" || target == "key" || target == "value") return "qkv";
  return target == "gate" || target == "up" ? "expand" : target;
}

double LoraConfig::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

ParamRules param_rules(const Config& config) {
  std::string problem;
  std::vector<std::string> beside = config.train.initial_reinitialise;
  std::ranges::copy(config.lora.modules_to_save, std::back_inserter(beside));
  return {.frozen = config.train.freeze,
          .beside = std::move(beside),
          .groups = param_groups(config.optimizer.groups, problem),
          .layer_decay = static_cast<float>(config.optimizer.layer_decay)};
}

}  // namespace trireme
