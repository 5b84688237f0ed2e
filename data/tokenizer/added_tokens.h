// SPDX-License-Identifier: Apache-2.0
// Added tokens, which are matched literally before the text is split: <|endoftext|>.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/spec.h"
#include "data/tokenizer/splitter.h"

namespace trireme {

// A part of a text: an added token, or the text between two of them.
struct TextPiece {
  TextSpan span;
  std::optional<std::uint32_t> token;
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  // Appends the parts of `text`, in order; of tokens that begin at the same place the longest.
  void split(std::string_view text, Splitter::Scratch& scratch,
             std::vector<TextPiece>& pieces) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> next;
    std::int32_t token = -1;
  };
  // The longest token at text[at]; null: none.
  [[nodiscard]] const AddedToken* find(std::string_view text, std::size_t at) const;
  [[nodiscard]] bool stands_alone(std::string_view text, TextSpan span,
                                  Splitter::Scratch& scratch) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // a trie; the first is its root
  std::vector<bool> begins_;
  std::optional<Splitter> word_;  // if a token needs it
};

}  // namespace trireme
