// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/yaml/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/config/yaml/text_check.h"

namespace trireme::config {
namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  return text;
}

template <typename T>
Parsed<T> parse_digits(std::string_view text) {
  const std::string_view digits = without_sign(text);
  // A leading zero is octal in YAML 1.1 and decimal in YAML 1.2; neither guess is safe.
  if (!all_digits(digits) || (digits.size() > 1 && digits[0] == '0')) return {};
  if (text[0] == '+') text.remove_prefix(1);
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) return {Parse::too_large, {}};
  return {Parse::ok, value};
}

}  // namespace

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

Parsed<std::int64_t> parse_integer(std::string_view text) {
  return parse_digits<std::int64_t>(text);
}

// from_chars rejects a minus sign before an unsigned number; here the digits are known to be valid.
Parsed<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse_digits<std::uint64_t>(text);
}

Parsed<double> parse_number(std::string_view text) {
  const std::string_view digits = without_sign(text);
  if (digits.empty() || !(is_digit(digits[0]) || digits[0] == '.')) return {};
  if (text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ptr != text.data() + text.size()) return {};
  if (result.ec == std::errc::result_out_of_range) return {Parse::too_large, value};
  if (result.ec != std::errc{} || !std::isfinite(value)) return {};
  return {Parse::ok, value + 0.0};  // -0 becomes 0
}

std::string integer_hint(std::string_view text) {
  std::string digits(text);
  std::erase_if(digits, [](char letter) { return letter == '_' || letter == ','; });
  while (digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]))
    digits.erase(0, 1);
  if (digits != text && parse_integer(digits).state == Parse::ok)
    return fmt::format("; write {}", digits);

  constexpr double exact = 9007199254740992.0;  // 2^53
  const auto number = parse_number(text);
  const bool whole = number.state == Parse::ok && number.value == std::trunc(number.value);
  if (whole && std::abs(number.value) <= exact) {
    return fmt::format("; write {}", static_cast<std::int64_t>(number.value));
  }
  return "";
}

std::string number_hint(std::string_view text) {
  std::string lower(without_sign(text));
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  for (const std::string_view word : {".inf", "inf", "infinity", ".nan", "nan"}) {
    if (lower == word) return "; infinity and NaN are not allowed";
  }
  std::erase_if(lower, [](char letter) { return letter == '_'; });
  if (lower != without_sign(text) && parse_number(lower).state == Parse::ok)
    return "; write it without underscores";
  std::ranges::replace(lower, ',', '.');
  if (parse_number(lower).state == Parse::ok) return "; the decimal sign is a point";
  return "";
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "no value";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a section";
    case Node::Kind::scalar:
      break;
  }
  if (!node.quoted && parse_number(node.text).state == Parse::ok)
    return fmt::format("the number {}", printable(node.text));
  if (!node.quoted && parse_boolean(node.text))
    return fmt::format("the boolean {}", printable(node.text));
  return fmt::format("the text \"{}\"", printable(node.text));
}

std::string quote_if_needed(const std::string& text) {
  const auto is_plain = [](unsigned char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '/' || letter == '.' ||
           letter == '-' || letter == '+';
  };
  const bool starts_as_word = !text.empty() && text[0] != '-' && text[0] != '.' && text[0] != '+';
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  if (starts_as_word && lower != "null" && std::ranges::all_of(text, is_plain)) return text;

  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + '"';
}

}  // namespace trireme::config
