// SPDX-License-Identifier: Apache-2.0
// Parses plain YAML scalars. Stricter than YAML 1.1: no octal, underscores, yes/no, NaN or
// infinity.
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

// A guess at what the user meant by `text`, as "; write 1000", or "".
[[nodiscard]] std::string integer_hint(std::string_view text);
[[nodiscard]] std::string number_hint(std::string_view text);

// For messages: `"abc"`, `the number 1.5`, `a list`, `no value`.
[[nodiscard]] std::string describe(const Node& node);

// `text` as a YAML scalar that reads back equal; quoted only if necessary.
[[nodiscard]] std::string quote_if_needed(const std::string& text);

}  // namespace trireme::config
