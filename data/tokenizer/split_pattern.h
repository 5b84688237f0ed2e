// SPDX-License-Identifier: Apache-2.0
// Converts patterns of tokenizer files, written for Oniguruma, to PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Keeps constructs that both libraries understand alike; \s and \S become Unicode white space.
// Raises ExitCode::data, naming `place` and the construct, for all others, because a slightly
// different pattern would give other tokens.
[[nodiscard]] std::string to_pcre2(std::string_view pattern, const std::string& place);

// A pattern that matches exactly `text`.
[[nodiscard]] std::string literal_pattern(std::string_view text);

}  // namespace trireme
