// SPDX-License-Identifier: Apache-2.0
// JSON of files and of other ranks. All of it is parsed here (scripts/lint.sh), so that no reader
// meets values that are nested more deeply than the stack bears where they are copied or written.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>  // NOLINT: included by sources only
#include <string_view>
#include <utility>

namespace trireme {

// No file of ours and no tokenizer comes near.
inline constexpr std::size_t deepest_json = 128;

// Whether objects and lists of `text` are nested more deeply, looking at brackets alone.
[[nodiscard]] inline bool is_nested_too_deeply(std::string_view text) {
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (in_text && letter == '\\') {
      ++i;
    } else if (letter == '"') {
      in_text = !in_text;
    } else if (!in_text && (letter == '{' || letter == '[')) {
      if (++depth > deepest_json) return true;
    } else if (!in_text && (letter == '}' || letter == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

class JsonTooDeep : public nlohmann::json::exception {
 public:
  JsonTooDeep() : exception(101, "objects and lists are nested more than 128 levels deep") {}
};
static_assert(deepest_json == 128, "as the message says");

// Raises Json::exception for what is no JSON, and JsonTooDeep. `callback` is the library's.
template <typename Json = nlohmann::json>
[[nodiscard]] Json parse_json(std::string_view text,
                              typename Json::parser_callback_t callback = nullptr) {
  if (is_nested_too_deeply(text)) throw JsonTooDeep();
  return Json::parse(text, std::move(callback));
}

// The library's "discarded" value instead, which is no object, list, number or text.
template <typename Json = nlohmann::json>
[[nodiscard]] Json json_or_discarded(std::string_view text) {
  if (is_nested_too_deeply(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The values of `text` one after another; false where the reader stopped or it is no JSON, which
// the reader's parse_error() has been told.
[[nodiscard]] inline bool read_json_events(std::string_view text,
                                           nlohmann::json_sax<nlohmann::json>& reader) {
  if (is_nested_too_deeply(text)) return reader.parse_error(0, "", JsonTooDeep());
  return nlohmann::json::sax_parse(text, &reader);
}

}  // namespace trireme
