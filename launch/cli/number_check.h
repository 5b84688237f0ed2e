// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <string>

namespace trireme {

// Real numbers from `low` to `high`. CLI::Range and CLI::PositiveNumber accept nan, because it
// compares as neither below nor above anything.
[[nodiscard]] inline CLI::Validator number_between(double low, double high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return {};
    return fmt::format("{} is not a number from {:g} to {:g}", text, low, high);
  };
  return {check, fmt::format("NUMBER in [{:g} - {:g}]", low, high)};
}

// Integers from `low` to `high`, in decimal digits. CLI11 saturates larger ones, wraps negative
// ones, and reads 010 as eight.
template <typename T>
[[nodiscard]] CLI::Validator integer_between(T low, T high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && value >= low && value <= high) {
      if (text == fmt::format("{}", value)) return {};
      return fmt::format("{} is not in plain decimal form; write {}", text, value);
    }
    const bool any = high == std::numeric_limits<T>::max();
    return fmt::format(
        "{} is not a whole number from {} to {}", text, low,
        any ? fmt::format("2^{} - 1", std::numeric_limits<T>::digits) : fmt::format("{}", high));
  };
  return {check, fmt::format("INTEGER in [{} - {}]", low, high)};
}

// Up to the largest T.
template <typename T>
[[nodiscard]] CLI::Validator integer_from(T low) {
  return integer_between(low, std::numeric_limits<T>::max());
}

// An option whose default the help shows, and the values that it may have.
template <typename T>
CLI::Option* add_value(CLI::App& command, const std::string& name, T& value,
                       const std::string& meaning, const CLI::Validator& allowed) {
  return command.add_option(name, value, meaning)->capture_default_str()->check(allowed);
}

}  // namespace trireme
