// SPDX-License-Identifier: Apache-2.0
// The content of a tokenizer.json, checked and converted to bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct AddedToken {
  std::string text{};
  std::uint32_t id = 0;
  bool single_word = false;  // only if no word touches it
  bool strip_left = false;   // takes the white space before it
  bool strip_right = false;
  bool normalized = true;  // matched in the text after normalization, not before
};

// Adjacent `left` and `right` become `joined`. Earlier merges come first.
struct TokenMerge {
  std::uint32_t left = 0, right = 0, joined = 0;
};

// What happens to the matches of a pattern, which cut a text into matches and the text between.
enum class SplitBehavior : std::uint8_t { isolated, removed, with_previous, with_next, contiguous };

struct SplitRule {
  std::string pattern{};  // a regular expression in PCRE2 syntax
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // the pattern means the text between matches
};

struct TokenizerSpec {
  std::vector<std::string> token_text;  // by id, as bytes; empty: no token has this id
  std::vector<bool> is_word;            // by id: merges may produce it
  std::vector<TokenMerge> merges;
  std::array<std::uint32_t, 256> byte_ids{};
  std::vector<AddedToken> added;
  std::vector<SplitRule> splits;
  bool composes = false;      // apply NFC first
  bool prefix_space = false;  // adds a space to a text that begins without one
  bool whole_words = false;   // a word that is a token becomes it, whatever the merges
};

// Raises ExitCode::data, naming `path` and the part, if it is not a tokenizer.json or has
// unsupported parts.
[[nodiscard]] TokenizerSpec parse_tokenizer(const std::string& text, const std::string& path);

// Equal for two files that give every text the same tokens, whatever else they contain (such as a
// post-processor) and in whatever form.
[[nodiscard]] std::uint64_t checksum_of(const TokenizerSpec& spec);

}  // namespace trireme
