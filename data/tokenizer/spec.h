// SPDX-License-Identifier: Apache-2.0
// The content of a tokenizer.json, checked and converted to bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

// By its name in a tokenizer.json; nothing for an unknown one.
[[nodiscard]] std::optional<SplitBehavior> split_behavior_of(std::string_view name);
[[nodiscard]] std::string split_behavior_names();

struct SplitRule {
  std::string pattern{};  // a regular expression in PCRE2 syntax
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // the pattern means the text between matches
};

// Word by word: merged from bytes or from characters, the longest tokens from the left (WordPiece),
// or the most probable ones (Unigram).
enum class TokenModel : std::uint8_t { byte_pairs, character_pairs, word_pieces, unigram };

struct TokenizerSpec {
  TokenModel model = TokenModel::byte_pairs;
  std::vector<std::string> token_text;  // by id, as bytes; empty: no token has this id
  std::vector<bool> is_word;            // by id: merges may produce it
  std::vector<TokenMerge> merges;
  std::array<std::uint32_t, 256> byte_ids{};  // of byte_pairs, or with `byte_fallback`
  std::vector<AddedToken> added;
  std::vector<SplitRule> splits;
  bool composes = false;      // apply NFC first
  bool prefix_space = false;  // adds a space to a text that begins without one
  bool whole_words = false;   // a word that is a token becomes it, whatever the merges
  // Of the other models than byte_pairs:
  std::uint32_t unknown = 0;     // for what has no token; unused by pairs with `byte_fallback`
  bool fuse_unknown = false;     // characters without tokens in a row become one `unknown`
  bool byte_fallback = false;    // they become their bytes' tokens instead
  std::string continuing{};      // before word pieces that do not begin a word: ##
  std::size_t longest_word = 0;  // in characters; longer ones are `unknown`
  std::vector<double> scores{};  // logarithms of probabilities, by id
  std::string normalizer{}, pre_tokenizer{}, decoder{};  // as JSON

  std::string post_processor{};  // as JSON
};

// Raises ExitCode::data, naming `path` and the part, if it is not a tokenizer.json or has
// unsupported parts.
[[nodiscard]] TokenizerSpec parse_tokenizer(const std::string& text, const std::string& path);

// Equal for two files that give every text the same tokens, whatever else they contain (such as a
// post-processor) and in whatever form.
[[nodiscard]] std::uint64_t checksum_of(const TokenizerSpec& spec);

}  // namespace trireme
