// SPDX-License-Identifier: Apache-2.0
// The decoder of a tokenizer.json, for tokenizers that are not byte-level.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// Thread-safe.
class TokenText {
 public:
  // From JSON. Raises ExitCode::data, naming `path` and the part, if it has unsupported parts.
  TokenText(const std::string& decoder, const std::string& path);

  // The text of a token; `first`: it begins the text.
  [[nodiscard]] std::string of(std::string_view token, bool first) const;
  // What is removed from the start of a text, such as the space before its first word.
  void strip_start(std::string& text) const;

 private:
  friend class TokenTextReader;
  enum class Joins : std::uint8_t { directly, with_spaces, word_pieces };

  Joins joins_ = Joins::directly;
  std::string continuing_;  // of word pieces
  bool cleans_up_ = false;  // no spaces before punctuation
  std::vector<std::pair<std::string, std::string>> replaced_;
  std::string space_mark_;  // of Metaspace
  bool drops_first_mark_ = false, bytes_ = false;
  std::string stripped_;
  std::size_t most_stripped_ = 0;
};

}  // namespace trireme
