// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/utf8.h"

#include <cstdint>
#include <cstring>

namespace trireme {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Skips ASCII from `at` on, eight bytes at a time.
std::size_t skip_ascii(std::string_view text, std::size_t at) {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, 8);
    if ((eight & high_bits) != 0) break;
  }
  return at;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t at) {
  const unsigned lead = byte_at(text, at);
  if (lead < 0x80) return {};
  std::size_t following = 0;
  unsigned low = 0x80, high = 0xBF;  // of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    following = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    following = 2;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    following = 3;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (std::size_t i = 1; i <= following; ++i) {
    if (at + i >= text.size() || byte_at(text, at + i) < low || byte_at(text, at + i) > high)
      return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {following + 1, true};
}

std::size_t first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; (at = skip_ascii(text, at)) < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    if (!step.valid) return at;
    at += step.bytes;
  }
  return std::string_view::npos;
}

std::string with_replaced_utf8(std::string_view text, std::size_t& replaced) {
  std::string good;
  good.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    good += step.valid ? text.substr(at, step.bytes) : replacement;
    replaced += step.valid ? 0 : 1;
    at += step.bytes;
  }
  return good;
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const unsigned lead = byte_at(text, at++);
  if (lead < 0x80) return lead;
  const int following = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t code = lead & (0x3FU >> following);
  for (int i = 0; i < following; ++i)
    code = code << 6 | (byte_at(text, at++) & 0x3FU);
  return code;
}

}  // namespace trireme
