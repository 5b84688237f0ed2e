// SPDX-License-Identifier: Apache-2.0
// Patterns of tokenizer files, which are written for Oniguruma, in the words of PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Constructs that both libraries understand alike are kept, \s and \S become the white space of
// Unicode. Raises ExitCode::data, naming `place` and the construct, for any other: a pattern that
// nearly means the same would give other tokens.
[[nodiscard]] std::string to_pcre2(std::string_view pattern, const std::string& place);

// A pattern that matches `text` and nothing else.
[[nodiscard]] std::string literal_pattern(std::string_view text);

}  // namespace trireme
