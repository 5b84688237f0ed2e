// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/letters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

using CodeRange = std::pair<char32_t, char32_t>;

bool is_in(std::span<const CodeRange> ranges, char32_t code) {
  const auto after =
      std::ranges::upper_bound(ranges, code, {}, [](const auto& range) { return range.first; });
  return after != ranges.begin() && code <= std::prev(after)->second;
}

// Marks of later versions than Unicode 9.
constexpr CodeRange newer_marks[] = {
    {0x7FD, 0x7FD},     {0x898, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xCF3, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
    {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0x10D24, 0x10F85}, {0x11070, 0x11074},
    {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
    {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x1182C, 0x11A99},
    {0x11D31, 0x13455}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1},
    {0x1CF00, 0x1CF46}, {0x1E08F, 0x1E4EF}};
// Nonspacing marks and punctuation of later versions than Unicode 8.
constexpr CodeRange newer_than_bert[] = {
    {0x61D, 0x61D},     {0x7FD, 0x7FD},     {0x898, 0x8E1},     {0x9FD, 0x9FE},
    {0xA76, 0xA76},     {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC3C},
    {0xC77, 0xC77},     {0xC84, 0xC84},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
    {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x1886},
    {0x1ABF, 0x1ACE},   {0x1B7D, 0x1B7E},   {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},
    {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},
    {0x10D24, 0x10F89}, {0x11070, 0x11074}, {0x110C2, 0x110C2}, {0x111C9, 0x111C9},
    {0x111CF, 0x111CF}, {0x1123E, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1145E},
    {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455},
    {0x16E97, 0x16F4F}, {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF},
    {0x1E944, 0x1E95F}};
constexpr CodeRange newer_controls[] = {
    {0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};
constexpr CodeRange ideographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                    {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
                                    {0x2F800, 0x2FA1F}};

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

}  // namespace

bool is_white_space(char32_t code) {
  return (code >= '\t' && code <= '\r') || code == ' ' || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

std::string_view stripped(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const char32_t code = next_code_point(text, at);
    if (is_white_space(code) || (code >= 0x1C && code <= 0x1F)) continue;
    begin = std::min(begin, here);
    end = at;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

bool is_mark(char32_t code) {
  if (code == 0x1CF2 || code == 0x1CF3) return true;  // letters since Unicode 12
  const auto category = category_of(code);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME &&
         !is_in(newer_marks, code);
}

bool is_nonspacing(char32_t code) {
  if (code == 0x1734) return true;
  return category_of(code) == UTF8PROC_CATEGORY_MN && !is_in(newer_than_bert, code);
}

bool is_removed(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  if (code == 0 || code == 0xFFFD) return true;
  const auto category = category_of(code);
  return (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
          category == UTF8PROC_CATEGORY_CO) &&
         !is_in(newer_controls, code);
}

bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
           (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
  if (code == 0x166D || code == 0x111C9) return true;
  const auto category = category_of(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO &&
         !is_in(newer_than_bert, code);
}

bool is_ideograph(char32_t code) {
  return is_in(ideographs, code);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    result.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = result.append(text, done);
}

void append_utf8(char32_t code, std::string& to) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  to.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

void append_lowercase(char32_t code, std::string& to) {
  if (code == 0x130) {  // the only one that becomes two
    to += "i\u0307";
    return;
  }
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), to);
}

namespace {

constexpr utf8proc_int32_t plane_end = 0x10000;
// No lower code point composes with another or changes.
constexpr unsigned char first_lead_that_may = 0xCC;  // of U+0300

// Marks, and letters with another form, newer than Unicode 9. The tokenizers library has that
// version's tables, which leave them unchanged; tests/checks/check_tokenizer.py checks all of
// them.
constexpr CodeRange newer[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x1715, 0x1715},   {0x1ABF, 0x1AFF},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},
    {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C0, 0x105FF},
    {0x10780, 0x107BF}, {0x10D24, 0x10D8F}, {0x10EAB, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11380, 0x113FF},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D97},
    {0x11F41, 0x11F42}, {0x16100, 0x1613F}, {0x16D40, 0x16D7F}, {0x16FF0, 0x16FF1},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6C0, 0x1E6FF}, {0x1F16C, 0x1F16C},
    {0x1FBF0, 0x1FBF9}};

bool is_newer(char32_t code) {
  return is_in(newer, code);
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

void append_form(std::string_view text, int options, std::string& to) {
  if (text.empty()) return;
  utf8proc_uint8_t* whole = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &whole,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(whole, &std::free);
  if (length < 0) library_failed("utf8proc_map(...)", utf8proc_errmsg(length));
  to.append(reinterpret_cast<const char*>(whole), static_cast<std::size_t>(length));
}

// Code points that joined later stay.
void append_old_form(std::string_view text, int options, std::string& to) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    if (static_cast<unsigned char>(text[at]) < first_lead_that_may) {
      ++at;
    } else if (is_newer(next_code_point(text, at))) {
      append_form(text.substr(done, here - done), options, to);
      to += text.substr(here, at - here);
      done = at;
    }
  }
  append_form(text.substr(done), options, to);
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text,
                             [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

}  // namespace

std::string_view composed(std::string_view text, std::string& buffer) {
  if (is_composed(text)) return text;
  buffer.clear();
  append_old_form(text, UTF8PROC_COMPOSE, buffer);
  return buffer;
}

std::string in_form(std::string_view text, UnicodeForm form) {
  std::string result;
  if (is_ascii(text)) return result = text;
  if (form == UnicodeForm::nfc) return result = composed(text, result);
  const bool composes = form == UnicodeForm::nfkc;
  const bool compatible = form != UnicodeForm::nfd;
  append_old_form(
      text, (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0),
      result);
  return result;
}

}  // namespace trireme
