// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/state_text.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "models/config.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

std::string plain(const json& value) {
  constexpr std::size_t longest = 200;
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

std::string members(const json& object) {
  std::string text;
  for (const auto& [name, value] : object.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, plain(value));
  return text;
}

std::string config_lines(const json& config, bool whole) {
  std::map<std::string, std::string> defaults;
  for (const auto& [key, value] : values_by_key(default_config()))
    defaults[key] = value;
  KeyValues stored;
  for (const auto& [key, value] : config.items())
    stored.emplace_back(key, plain(value));
  stored = under_current_keys(stored);
  std::string lines;
  std::size_t shown = 0;
  for (const auto& [key, value] : stored) {
    const auto usual = defaults.find(key);
    if (!whole && usual != defaults.end() && value == usual->second) continue;
    ++shown;
    lines += fmt::format("  {:<30} {}\n", key, value);
  }
  return fmt::format("config    {} of {} keys{}:\n{}", shown, stored.size(),
                     whole ? "" : ", those that differ from the defaults (--config: all)", lines);
}

}  // namespace

std::string describe_state(const std::string& state, bool whole_config) {
  const json parsed = json_or_discarded<json>(state);
  if (!parsed.is_object())
    return fmt::format("state     {} bytes that are not a training run's\n", state.size());
  std::string text;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "config" && value.is_object()) continue;
    text += fmt::format("{:<9} {}\n", name, value.is_object() ? members(value) : plain(value));
  }
  if (const auto config = parsed.find("config"); config != parsed.end() && config->is_object())
    text += config_lines(*config, whole_config);
  return text;
}

}  // namespace trireme
