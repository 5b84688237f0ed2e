// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/json_fields.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme::json_fields {

void refuse(const std::string& path, const std::string& where, std::string_view what) {
  fail(ExitCode::checkpoint, "{}: {}: {}; the file is damaged or from another program", path, where,
       what);
}

json parse(std::string_view text, const std::string& path) {
  // The library ends the text at a zero byte, which would hide what follows it.
  if (text.find('\0') != std::string_view::npos) refuse(path, "text", "holds a zero byte");
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int /*level*/, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) refuse(path, "'" + key + "'", "appears twice");
    }
    return true;
  };
  try {
    return parse_json(text, watch);
  } catch (const json::exception& error) {
    refuse(path, "text", error.what());
  }
}

Object::Object(const json& value, const std::string& path, std::string where,
               std::initializer_list<std::string_view> keys,
               std::initializer_list<std::string_view> optional)
    : value_(value), path_(path), where_(std::move(where)) {
  if (!value.is_object()) json_fields::refuse(path_, where_, "is not an object");
  for (const std::string_view key : keys) {
    if (!value.contains(key)) refuse(key, "is missing");
  }
  for (const auto& [key, unused] : value.items()) {
    const auto is_this = [&](std::string_view known) { return known == key; };
    if (std::ranges::none_of(keys, is_this) && std::ranges::none_of(optional, is_this))
      refuse(key, "is unknown");
  }
}

void Object::refuse(std::string_view key, std::string_view what) const {
  json_fields::refuse(path_, fmt::format("{}.{}", where_, key), what);
}

const json& Object::at(std::string_view key) const {
  return *value_.find(key);
}

std::int64_t Object::number(std::string_view key, std::int64_t min, std::int64_t max) const {
  return number_of(at(key), min, max, path_, fmt::format("{}.{}", where_, key));
}

std::string Object::text(std::string_view key) const {
  if (!at(key).is_string()) refuse(key, "is not a string");
  return at(key).get<std::string>();
}

const json& Object::array(std::string_view key) const {
  if (!at(key).is_array()) refuse(key, "is not a list");
  return at(key);
}

std::uint64_t Object::hash(std::string_view key) const {
  return hash_of(at(key), path_, fmt::format("{}.{}", where_, key));
}

std::int64_t number_of(const json& value, std::int64_t min, std::int64_t max,
                       const std::string& path, const std::string& where) {
  // Values beyond 63 bits are unsigned and cannot be compared as signed.
  const bool fits =
      value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max);
  if (!fits || value.get<std::int64_t>() < min)
    refuse(path, where, fmt::format("is not a whole number from {} to {}", min, max));
  return value.get<std::int64_t>();
}

std::uint64_t hash_of(const json& value, const std::string& path, const std::string& where) {
  constexpr std::size_t digits = 16;
  std::uint64_t hash = 0;
  if (value.is_string() && value.get_ref<const std::string&>().size() == digits) {
    const auto& text = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + digits, hash, 16);
    if (error == std::errc() && end == text.data() + digits) return hash;
  }
  refuse(path, where, "is not 16 hexadecimal digits");
}

}  // namespace trireme::json_fields
