// SPDX-License-Identifier: Apache-2.0
// The table by which SentencePiece normalises characters ("precompiled_charsmap").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// The size of a Darts-clone trie, the trie, and the zero-terminated texts of its leaves. False if
// some text could read out of bounds: SentencePiece's library does not check. "" is the empty
// table.
[[nodiscard]] bool is_char_map(std::string_view map);

class CharMap {
 public:
  // Raises ExitCode::data, naming `path`, if it is damaged.
  CharMap(std::string map, const std::string& path);

  // Of valid UTF-8, as the tokenizers library does it: grapheme clusters of up to 5 bytes are
  // looked up whole, and all others by code point.
  [[nodiscard]] std::string apply(std::string_view text) const;

 private:
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;
  void append(std::string_view cluster, std::string& to) const;

  std::string map_;
};

}  // namespace trireme
