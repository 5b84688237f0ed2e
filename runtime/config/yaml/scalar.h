// SPDX-License-Identifier: Apache-2.0
// Plain YAML scalars as typed values. Stricter than YAML 1.1: no octal, no underscores, no yes/no,
// no NaN or infinity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/config/yaml/document.h"

namespace trireme::config {

enum class Parse { ok, malformed, too_large };

template <typename T>
struct Parsed {
  Parse state = Parse::malformed;
  T value{};
};

[[nodiscard]] std::optional<bool> parse_boolean(
    std::string_view text);  // true, True, TRUE, false, ...
[[nodiscard]] Parsed<std::int64_t> parse_integer(
    std::string_view text);  // decimal digits with an optional sign
[[nodiscard]] Parsed<std::uint64_t> parse_unsigned(
    std::string_view text);                                        // a negative number is too_large
[[nodiscard]] Parsed<double> parse_number(std::string_view text);  // 1, 0.5, 1e-3

// What a user who wrote `text` may have meant, as "; write 1000", or "".
[[nodiscard]] std::string integer_hint(std::string_view text);
[[nodiscard]] std::string number_hint(std::string_view text);

// `"abc"`, `the number 1.5`, `a list`, `no value`: what stands there, for messages.
[[nodiscard]] std::string describe(const Node& node);

// `text` as a YAML scalar that reads back as the same text; quoted only where YAML needs it.
[[nodiscard]] std::string quote_if_needed(const std::string& text);

}  // namespace trireme::config
