// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

constexpr utf8proc_int32_t plane_end = 0x10000;
// No lower code point composes with another or changes.
constexpr unsigned char first_lead_that_may = 0xCC;  // of U+0300

// Marks and composing letters newer than Unicode 9. The tokenizers library has that version's
// tables, which leave them unchanged; scripts/checks/check_tokenizer.py checks all of them.
constexpr std::array<std::pair<char32_t, char32_t>, 39> newer = {
    {{0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
     {0x1715, 0x1715},   {0x1ABF, 0x1AFF},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
     {0x105C0, 0x105FF}, {0x10D24, 0x10D8F}, {0x10EAB, 0x10EFF}, {0x10F46, 0x10F50},
     {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11380, 0x113FF},
     {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11943}, {0x119E0, 0x119E0},
     {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D97},
     {0x11F41, 0x11F42}, {0x16100, 0x1613F}, {0x16D40, 0x16D7F}, {0x16FF0, 0x16FF1},
     {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
     {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6C0, 0x1E6FF}}};

bool is_newer(char32_t code) {
  const auto after =
      std::ranges::upper_bound(newer, code, {}, [](const auto& range) { return range.first; });
  return after != newer.begin() && code <= std::prev(after)->second;
}

// Code points that NFC leaves unchanged in any context.
class Inert {
 public:
  Inert() {
    std::array<utf8proc_int32_t, 32> parts{};
    for (utf8proc_int32_t code = 0; code < plane_end; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      const utf8proc_property_t* const property = utf8proc_get_property(code);
      int bound = 0;
      const auto count =
          utf8proc_decompose_char(code, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &bound);
      // All but the first part of a decomposition can compose.
      for (utf8proc_ssize_t i = 1; i < count; ++i) {
        const auto part = static_cast<std::size_t>(parts[static_cast<std::size_t>(i)]);
        if (part < plane_end) changes_.set(part);
      }
      const bool kept = count == 1 ? parts[0] == code : recomposes(parts.data(), count, code);
      if (property->combining_class != 0 || !kept) changes_.set(static_cast<std::size_t>(code));
    }
  }
  [[nodiscard]] bool operator()(char32_t code) const {
    if (code < plane_end) return !changes_[code];
    // Emoji and ideographs; some of the other code points above combine.
    return (code >= 0x1F000 && code <= 0x1FAFF) || (code >= 0x20000 && code < 0x2F800);
  }

 private:
  static bool recomposes(utf8proc_int32_t* parts, utf8proc_ssize_t count, utf8proc_int32_t code) {
    std::array<utf8proc_int32_t, 32> copy{};
    std::copy(parts, parts + count, copy.begin());
    const auto length = utf8proc_normalize_utf32(
        copy.data(), count, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    return length == 1 && copy[0] == code;
  }

  std::bitset<plane_end> changes_;
};

bool is_composed(std::string_view text) {
  static const Inert inert;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < first_lead_that_may) {
      ++at;
    } else if (!inert(next_code_point(text, at))) {
      return false;
    }
  }
  return true;
}

void append_composed(std::string_view text, std::string& to) {
  if (text.empty()) return;
  utf8proc_uint8_t* whole = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &whole,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(whole, &std::free);
  if (length < 0) library_failed("utf8proc_map(...)", utf8proc_errmsg(length));
  to.append(reinterpret_cast<const char*>(whole), static_cast<std::size_t>(length));
}

}  // namespace

std::string_view composed(std::string_view text, std::string& buffer) {
  if (is_composed(text)) return text;
  buffer.clear();
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    if (static_cast<unsigned char>(text[at]) < first_lead_that_may) {
      ++at;
    } else if (is_newer(next_code_point(text, at))) {
      append_composed(text.substr(done, here - done), buffer);
      buffer += text.substr(here, at - here);
      done = at;
    }
  }
  append_composed(text.substr(done), buffer);
  return buffer;
}

}  // namespace trireme
