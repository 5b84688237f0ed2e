// SPDX-License-Identifier: Apache-2.0
// Models that choose among the tokens that a word is made of. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/spec.h"

namespace trireme {

// Texts by their first bytes.
class TokenTrie {
 public:
  void add(std::string_view text, std::uint32_t id);  // a later id replaces an earlier one
  // Calls found(bytes, id) for each text that `text` begins with, the shortest first.
  template <typename Found>
  void visit(std::string_view text, Found found) const {
    std::uint32_t node = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto next = edges_.find(edge(node, text[at]));
      if (next == edges_.end()) return;
      node = next->second;
      if (ids_[node] >= 0) found(at + 1, static_cast<std::uint32_t>(ids_[node]));
    }
  }

 private:
  static std::uint64_t edge(std::uint32_t node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::vector<std::int64_t> ids_{-1};  // by node; -1: no text ends there
};

// WordPiece (Devlin et al., 2019): the longest token that the word begins with, then the longest
// continuing one, and so on; one unknown token if there is none or the word is too long.
class WordPieces {
 public:
  explicit WordPieces(const TokenizerSpec& spec);
  void encode(std::string_view word, std::vector<std::uint32_t>& ids) const;

 private:
  TokenTrie begins_, continues_;
  std::uint32_t unknown_;
  std::size_t longest_;
};

// Unigram (Kudo, 2018): the tokens with the greatest sum of scores; of equal ones those that the
// tokenizers library finds. Characters without a token become one unknown token in a row, or bytes.
class Unigram {
 public:
  explicit Unigram(const TokenizerSpec& spec);
  void encode(std::string_view word, std::vector<std::uint32_t>& ids) const;

 private:
  void add_unknown(std::string_view text, std::vector<std::uint32_t>& reversed) const;

  TokenTrie tokens_;
  const TokenizerSpec& spec_;
  double unknown_score_ = 0;
};

}  // namespace trireme
