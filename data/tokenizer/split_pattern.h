// SPDX-License-Identifier: Apache-2.0
// Converts patterns of tokenizer files, written for Oniguruma, to PCRE2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// Keeps constructs that both libraries understand alike; \s and \S become Unicode white space.
// Raises ExitCode::data, naming `place` and the construct, for all others, because a slightly
// different pattern would give other tokens.
[[nodiscard]] std::string to_pcre2(std::string_view pattern, const std::string& place);

// A pattern that matches exactly `text`.
[[nodiscard]] std::string literal_pattern(std::string_view text);

// Byte-level tokenizers write every byte as a printable letter (space as U+0120), so tokens are
// text in their files.
// The bytes of `token`, valid UTF-8; nothing if a letter means no byte.
[[nodiscard]] std::optional<std::string> bytes_of_letters(std::string_view token);

}  // namespace trireme
