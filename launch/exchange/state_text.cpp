// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/state_text.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

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

// Of the config in a state; "" if it has no such key.
std::string value_in(const std::string& state, const char* key) {
  const json parsed = json_or_discarded<json>(state);
  if (!parsed.is_object() || !parsed.contains("config")) return {};
  const json& config = parsed["config"];
  const auto found = config.is_object() ? config.find(key) : config.end();
  return found == config.end() ? std::string() : plain(*found);
}

}  // namespace

bool cuts_samples(const std::string& state) {
  const std::string ranks = value_in(state, "parallel.spatial");
  return !ranks.empty() && ranks != "[1, 1, 1]";
}

int context_ranks(const std::string& state) {
  const std::string ranks = value_in(state, "parallel.context");
  return std::max(1, std::atoi(ranks.c_str()));
}

std::string describe_state(const std::string& state, bool whole_config) {
  const json parsed = json_or_discarded<json>(state);
  if (!parsed.is_object())
    return fmt::format("state     {} bytes that are not from a training run\n", state.size());
  std::string text;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "config" && value.is_object()) continue;
    text += fmt::format("{:<9} {}\n", name, value.is_object() ? members(value) : plain(value));
  }
  if (const auto config = parsed.find("config"); config != parsed.end() && config->is_object())
    text += config_lines(*config, whole_config);
  return text;
}

namespace {

// "3 of 8 elements differ, by up to 0.25"; "" where all bits are the same.
std::string difference(const std::vector<float>& left, const std::vector<float>& right) {
  std::size_t elements = 0;
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(left[i]) == std::bit_cast<std::uint32_t>(right[i])) continue;
    ++elements;
    const double by = std::abs(double{left[i]} - double{right[i]});
    // A NaN on one side stays the largest.
    if (!(by <= largest)) largest = by;
  }
  if (elements == 0) return "";
  return fmt::format("{} of {} elements differ, by up to {:.9g}", elements, left.size(), largest);
}

void compare(const RunState& a, const RunState& b, ValueKind kind, StateDifference& found) {
  const auto values_of = [&](const RunState& from) {
    return from.has(kind) ? from.values(kind) : StoredValues{};
  };
  const StoredValues left = values_of(a), right = values_of(b);
  StoredReader left_reader(left), right_reader(right);
  std::set<std::string> names;
  for (const StoredValues* const side : {&left, &right}) {
    for (const auto& [name, tensor] : side->tensors)
      names.insert(name);
  }
  for (const std::string& name : names) {
    const auto l = left.tensors.find(name), r = right.tensors.find(name);
    std::string what;
    if (l == left.tensors.end() || r == right.tensors.end()) {
      what = fmt::format("only in {}", l == left.tensors.end() ? b.path : a.path);
    } else if (l->second.shape != r->second.shape) {
      what = fmt::format("{} and {}", l->second.shape.to_string(), r->second.shape.to_string());
    } else {
      what = difference(left_reader.whole(l->second), right_reader.whole(r->second));
    }
    ++found.tensors;
    if (what.empty()) continue;
    ++found.differing;
    fmt::print("{}/{}: {}\n", name_of(kind), name, what);
  }
}

}  // namespace

StateDifference print_difference(const RunState& a, const RunState& b) {
  const bool whole = a.checkpoint && b.checkpoint;
  StateDifference found;
  std::vector<std::string_view> left_out;
  for (const ValueKind kind : value_kinds) {
    if (whole || (a.has(kind) && b.has(kind))) {
      compare(a, b, kind, found);
    } else if (a.has(kind) || b.has(kind)) {
      left_out.push_back(name_of(kind));
    }
  }
  if (!left_out.empty())
    fmt::print("not compared, because {} has only weights: {}\n", a.checkpoint ? b.path : a.path,
               fmt::join(left_out, ", "));
  found.scalars = whole && a.checkpoint->manifest.scalars != b.checkpoint->manifest.scalars;
  if (found.scalars) fmt::print("scalars differ\n");
  return found;
}

}  // namespace trireme
