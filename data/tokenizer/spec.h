// SPDX-License-Identifier: Apache-2.0
// What a tokenizer.json says, checked and in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct AddedToken {
  std::string text{};
  std::uint32_t id = 0;
  bool single_word = false;  // only where no word touches it
  bool strip_left = false;   // takes the white space before it
  bool strip_right = false;
  bool normalized = true;  // found in the text after normalization, not before
};

// Becomes `joined` where `left` and `right` stand beside each other. Earlier ones come first.
struct TokenMerge {
  std::uint32_t left = 0, right = 0, joined = 0;
};

// What becomes of the matches of a pattern, which cut a text into matches and what lies between.
enum class SplitBehavior : std::uint8_t { isolated, removed, with_previous, with_next, contiguous };

struct SplitRule {
  std::string pattern{};  // a regular expression, in the words of PCRE2
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what lies between is what the pattern means
};

struct TokenizerSpec {
  std::vector<std::string> token_text;  // by id, as bytes; empty: no token has this id
  std::vector<bool> is_word;            // by id: merges may lead to it
  std::vector<TokenMerge> merges;
  std::array<std::uint32_t, 256> byte_ids{};
  std::vector<AddedToken> added;
  std::vector<SplitRule> splits;
  bool composes = false;      // NFC first
  bool prefix_space = false;  // a text that begins without a space gets one
  bool whole_words = false;   // a word that is a token is that token, whatever the merges
};

// Raises ExitCode::data, naming `path` and the part, for what is no tokenizer.json or has parts
// that are not supported here.
[[nodiscard]] TokenizerSpec parse_tokenizer(const std::string& text, const std::string& path);

// Equal for two files by which every text has the same tokens: whatever else stands in them, as a
// post-processor, and in whatever form.
[[nodiscard]] std::uint64_t checksum_of(const TokenizerSpec& spec);

}  // namespace trireme
