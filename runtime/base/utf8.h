// SPDX-License-Identifier: Apache-2.0
// Handling of untrusted UTF-8 text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

// The bytes at text[at]: a whole code point, or invalid bytes (the longest start of one, as Unicode
// recommends and Python's errors="replace" counts them).
struct Utf8Step {
  std::size_t bytes = 1;
  bool valid = true;
};
[[nodiscard]] Utf8Step utf8_step(std::string_view text, std::size_t at);

// The first byte that is not UTF-8; npos: there is none.
[[nodiscard]] std::size_t first_invalid_utf8(std::string_view text);

// `text` with U+FFFD for every invalid step; `replaced` counts them.
[[nodiscard]] std::string with_replaced_utf8(std::string_view text, std::size_t& replaced);

// The code point at text[at] of valid UTF-8; advances `at`.
[[nodiscard]] char32_t next_code_point(std::string_view text, std::size_t& at);

}  // namespace trireme
