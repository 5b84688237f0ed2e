// SPDX-License-Identifier: Apache-2.0
// Classes of code points as the tokenizers library has them, and the forms of Unicode (UAX #15).
// Its tables are older than utf8proc's: code points that joined later belong to no class and have
// no other form. tests/checks/check_tokenizer.py compares all code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

[[nodiscard]] constexpr bool is_ascii_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}
[[nodiscard]] bool is_white_space(char32_t code);  // Unicode White_Space
// Without white space at its ends, as Python's str.strip() counts it.
[[nodiscard]] std::string_view stripped(std::string_view text);
[[nodiscard]] bool is_mark(char32_t code);  // M, of Unicode 9
// As in BERT's tokenizer; of Unicode 8.
[[nodiscard]] bool is_nonspacing(char32_t code);  // Mn
[[nodiscard]] bool is_removed(char32_t code);     // Cc, Cf, Co, U+0000 and U+FFFD, but no line ends
[[nodiscard]] bool is_punctuation(char32_t code);  // P and ASCII's symbols
[[nodiscard]] bool is_ideograph(char32_t code);

void replace_all(std::string& text, std::string_view from, std::string_view to);
void append_utf8(char32_t code, std::string& to);
void append_lowercase(char32_t code, std::string& to);

enum class UnicodeForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

// `text` must be valid UTF-8.
[[nodiscard]] std::string in_form(std::string_view text, UnicodeForm form);

// NFC. Returns `text` itself, or a view of `buffer`.
[[nodiscard]] std::string_view composed(std::string_view text, std::string& buffer);

}  // namespace trireme
