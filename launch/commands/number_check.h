// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

namespace trireme {

// Real numbers from `low` to `high`: CLI::Range and CLI::PositiveNumber let nan through, which is
// neither below nor above anything.
[[nodiscard]] inline CLI::Validator number_between(double low, double high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return {};
    return fmt::format("{} is not a number from {:g} to {:g}", text, low, high);
  };
  return {check, fmt::format("NUMBER in [{:g} - {:g}]", low, high)};
}

}  // namespace trireme
