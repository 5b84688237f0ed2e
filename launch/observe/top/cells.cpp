// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/cells.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "runtime/base/utf8.h"

namespace trireme::top {
namespace {

struct Character {
  utf8proc_int32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

Character first_of(std::string_view text) {
  const Utf8Step step = utf8_step(text, 0);
  std::size_t at = 0;
  if (!step.valid) return {};
  return {static_cast<utf8proc_int32_t>(next_code_point(text, at)), step.bytes, true};
}

// Control characters and marks that change the text direction.
bool moves_things(utf8proc_int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

std::size_t columns_of_code(utf8proc_int32_t code) {
  return static_cast<std::size_t>(utf8proc_charwidth(code));
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
