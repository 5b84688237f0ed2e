// SPDX-License-Identifier: Apache-2.0
// Parses all JSON from files and other ranks (scripts/lint.sh checks that), so that no value is
// nested too deeply for the stack when it is copied or written, and no bytes are left out.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>  // NOLINT: included by sources only
#include <string_view>
#include <utility>

namespace trireme {

// Deeper than any file of ours or any tokenizer.
inline constexpr std::size_t deepest_json = 128;

// Why the library must not parse `text`: objects and lists that are nested more deeply (counts
// brackets only), or a NUL, which JSON does not allow and at which the library would just stop.
// Null if it may.
[[nodiscard]] inline const char* json_fault(std::string_view text) {
  std::size_t depth = 0;
  bool in_text = false;
  if (text.find('\0') != std::string_view::npos) return "NUL bytes are not allowed";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (in_text && letter == '\\') {
      ++i;
    } else if (letter == '"') {
      in_text = !in_text;
    } else if (!in_text && (letter == '{' || letter == '[')) {
      if (++depth > deepest_json) return "objects and lists are nested more than 128 levels deep";
    } else if (!in_text && (letter == '}' || letter == ']') && depth > 0) {
      --depth;
    }
  }
  return nullptr;
}

class JsonFault : public nlohmann::json::exception {
 public:
  explicit JsonFault(const char* fault) : exception(101, fault) {}
};
static_assert(deepest_json == 128, "as the message says");

// Raises Json::exception for invalid JSON, and JsonFault. `callback` is the library's.
template <typename Json = nlohmann::json>
[[nodiscard]] Json parse_json(std::string_view text,
                              typename Json::parser_callback_t callback = nullptr) {
  if (const char* const fault = json_fault(text)) throw JsonFault(fault);
  return Json::parse(text, std::move(callback));
}

// Returns the library's "discarded" value instead, which is no object, list, number or text.
template <typename Json = nlohmann::json>
[[nodiscard]] Json json_or_discarded(std::string_view text) {
  if (json_fault(text) != nullptr) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Passes the values of `text` to the reader in order; false if the reader stopped or the JSON is
// invalid, which the reader's parse_error() has reported.
template <typename Json>
[[nodiscard]] bool read_json_events(std::string_view text, nlohmann::json_sax<Json>& reader) {
  if (const char* const fault = json_fault(text))
    return reader.parse_error(0, "", JsonFault(fault));
  return Json::sax_parse(text, &reader);
}

}  // namespace trireme
