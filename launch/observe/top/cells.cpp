// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace trireme::top {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : (lead >= 0xe0 ? 3 : 2);
  constexpr std::array<std::uint32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return {code, bytes, code >= smallest[bytes] && code <= 0x10ffff && !surrogate};
}

// Control characters of both sets, and marks that turn the direction of what follows.
bool moves_things(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

std::size_t columns_of_code(std::uint32_t code) {
  if (code >= 0x300 && code < 0x370) return 0;  // combining marks
  const bool wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
                    (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
                    (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
                    (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x1f300 && code <= 0x1faff) ||
                    (code >= 0x20000 && code <= 0x3fffd);
  return wide ? 2 : 1;
}

constexpr std::string_view mark = "..";

}  // namespace

bool locale_has_utf8() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string lower(value);
    std::ranges::transform(lower, lower.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

std::string clean(std::string_view text, bool utf8) {
  std::string result;
  while (!text.empty()) {
    const Character next = first_of(text);
    if (!next.valid || (!utf8 && next.code > 0x7e))
      result += '?';
    else if (moves_things(next.code))
      result += ' ';
    else
      result += text.substr(0, next.bytes);
    text.remove_prefix(next.valid ? next.bytes : 1);
  }
  return result;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character next = first_of(text);
    columns += columns_of_code(next.code);
    text.remove_prefix(next.bytes);
  }
  return columns;
}

std::size_t bytes_within(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0, taken = 0;
  while (bytes < text.size()) {
    const Character next = first_of(text.substr(bytes));
    taken += columns_of_code(next.code);
    if (taken > columns) break;
    bytes += next.bytes;
  }
  return bytes;
}

std::string cut(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns <= mark.size()) return std::string(mark.substr(0, columns));
  return std::string(text.substr(0, bytes_within(text, columns - mark.size()))) + std::string(mark);
}

std::string cut_front(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  if (columns <= mark.size()) return std::string(mark.substr(0, columns));
  while (columns_of(text) > columns - mark.size())
    text.remove_prefix(first_of(text).bytes);
  return std::string(mark) + std::string(text);
}

std::string padded(std::string_view text, std::size_t columns) {
  std::string result = cut(text, columns);
  result.append(columns - columns_of(result), ' ');
  return result;
}

std::string number_text(double value, const char* form) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(form), value) : std::string("-");
}

std::string bar(double share, std::size_t columns, bool utf8) {
  constexpr std::array<std::string_view, 8> eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double filled = (share > 0 ? std::min(share, 1.0) : 0.0) * static_cast<double>(columns);
  if (!utf8)
    return padded(std::string(static_cast<std::size_t>(std::lround(filled)), '#'), columns);
  const auto parts = static_cast<std::size_t>(std::lround(8 * filled));
  std::string text;
  for (std::size_t i = 0; i < parts / 8; ++i)
    text += "█";
  text += eighths[parts % 8];
  return padded(text, columns);
}

std::string sparkline(std::span<const double> values, bool utf8) {
  constexpr std::array<std::string_view, 8> blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 8> letters = {"_", ".", ",", "-", "~", "=", "+", "^"};
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string text;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      text += ' ';
      continue;
    }
    const double part = high > low ? (value - low) / (high - low) : 0.0;
    const auto level = static_cast<std::size_t>(std::lround(7 * part));
    text += utf8 ? blocks[level] : letters[level];
  }
  return text;
}

}  // namespace trireme::top
