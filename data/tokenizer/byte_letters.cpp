// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/byte_letters.h"

#include <array>
#include <cstdint>

#include "runtime/base/utf8.h"

namespace trireme {
namespace {

constexpr std::int16_t no_byte = -1;

// GPT-2's: printable Latin-1 bytes map to themselves, the others to U+0100 and up.
constexpr std::array<std::int16_t, 0x144> byte_of_letter = [] {
  std::array<std::int16_t, 0x144> table{};
  table.fill(no_byte);
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool printed = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    table[printed ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return table;
}();

}  // namespace

std::optional<std::string> bytes_of_letters(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const char32_t letter = next_code_point(token, at);
    if (letter >= byte_of_letter.size() || byte_of_letter[letter] == no_byte) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of_letter[letter]));
  }
  return bytes;
}

}  // namespace trireme
