// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/char_map.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

constexpr std::uint32_t leaf = std::uint32_t{1} << 31, value_bits = leaf - 1, letters = 0xFF;

std::uint32_t word_at(std::string_view bytes, std::size_t word) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + word * sizeof(value), sizeof(value));
  return value;
}

// A node at p with offset o has its children at p ^ o ^ letter, and its value, if any, at p ^ o.
std::size_t offset_of(std::uint32_t node) {
  return std::size_t{node >> 10} << ((node & (1U << 9)) >> 6);
}
bool has_value(std::uint32_t node) {
  return ((node >> 8) & 1U) != 0;
}

}  // namespace

bool is_char_map(std::string_view map) {
  if (map.empty()) return true;
  if (map.size() < sizeof(std::uint32_t)) return false;
  const std::uint32_t trie_bytes = word_at(map, 0);
  map.remove_prefix(sizeof(std::uint32_t));
  if (trie_bytes == 0 || trie_bytes > map.size() || trie_bytes % sizeof(std::uint32_t) != 0)
    return false;
  const std::string_view texts = map.substr(trie_bytes);
  if (texts.empty() || texts.back() != '\0') return false;
  const std::size_t nodes = trie_bytes / sizeof(std::uint32_t);
  for (std::size_t at = 0; at < nodes; ++at) {
    const std::uint32_t node = word_at(map, at);
    if ((node & leaf) != 0) {
      if ((node & value_bits) >= texts.size()) return false;
      continue;
    }
    const std::size_t children = at ^ offset_of(node);
    if ((children | letters) >= nodes) return false;
    if (has_value(node) && (word_at(map, children) & value_bits) >= texts.size()) return false;
  }
  return true;
}

CharMap::CharMap(std::string map, const std::string& path) : map_(std::move(map)) {
  if (!is_char_map(map_)) fail(ExitCode::data, "{}: its table of characters is damaged", path);
}

std::optional<std::string_view> CharMap::find(std::string_view text) const {
  if (map_.empty()) return std::nullopt;
  const std::string_view trie = std::string_view(map_).substr(sizeof(std::uint32_t));
  const std::uint32_t trie_bytes = word_at(map_, 0);
  std::size_t at = offset_of(word_at(trie, 0));
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte == 0) break;
    at ^= byte;
    const std::uint32_t node = word_at(trie, at);
    if ((node & (leaf | letters)) != byte) break;
    at ^= offset_of(node);
    // The library takes the shortest prefix for the whole.
    if (has_value(node))
      return std::string_view(map_.data() + sizeof(std::uint32_t) + trie_bytes +
                              (word_at(trie, at) & value_bits));
  }
  return std::nullopt;
}

void CharMap::append(std::string_view cluster, std::string& to) const {
  constexpr std::size_t longest_whole = 5;
  if (cluster.size() <= longest_whole) {
    if (const auto whole = find(cluster)) {
      to += *whole;
      return;
    }
  }
  for (std::size_t at = 0; at < cluster.size();) {
    const std::size_t begin = at;
    static_cast<void>(next_code_point(cluster, at));
    const std::string_view letter = cluster.substr(begin, at - begin);
    to += find(letter).value_or(letter);
  }
}

std::string CharMap::apply(std::string_view text) const {
  std::string result;
  std::size_t begin = 0;
  utf8proc_int32_t before = -1, state = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const auto code = static_cast<utf8proc_int32_t>(next_code_point(text, at));
    if (before >= 0 && utf8proc_grapheme_break_stateful(before, code, &state)) {
      append(text.substr(begin, here - begin), result);
      begin = here;
    }
    before = code;
  }
  append(text.substr(begin), result);
  return result;
}

}  // namespace trireme
