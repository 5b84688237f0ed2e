// SPDX-License-Identifier: Apache-2.0
// WordPiece, Unigram, and BPE of characters, from a tokenizer.json.
#include <algorithm>
#include <unordered_map>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/byte_pairs.h"
#include "data/tokenizer/letters.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/token_text.h"
#include "data/tokenizer/tokenizer_kind.h"
#include "data/tokenizer/word_models.h"
#include "data/tokenizer/word_splitter.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view metaspace = "\u2581";  // what a space becomes

bool is_word_end(std::string_view text, std::size_t at) {
  return is_ascii_letter(text[at - 1]) && text[at] == ' ';
}

// Then merges never cross the boundary between an ASCII letter and the mark of a space.
bool pairs_begin_at_spaces(const TokenizerSpec& spec) {
  if (spec.model != TokenModel::character_pairs || spec.whole_words) return false;
  if (!spec.byte_fallback && std::ranges::find(spec.token_text, metaspace) == spec.token_text.end())
    return false;
  return std::ranges::none_of(spec.token_text, [](std::string_view text) {
    const std::size_t at = text.find(metaspace, text.find_first_not_of(metaspace));
    return at != std::string_view::npos && at > 0;
  });
}

// Added tokens must not cross a cut, nor end at it: what follows one may begin like a text.
bool can_be_crossed(const AddedToken& token) {
  if (is_ascii_letter(token.text.back())) return true;
  for (std::size_t at = 1; at < token.text.size(); ++at) {
    if (is_word_end(token.text, at)) return true;
  }
  return false;
}

class WordTokens final : public TokenizerKind {
 public:
  WordTokens(const std::string& path, TokenizerSpec read)
      : spec(std::move(read)),
        meaning_of_spec(checksum_of(spec)),
        normalizer(spec.normalizer, path),
        splitter(spec.pre_tokenizer, normalizer.replaces_spaces(), path),
        text(spec.decoder, path),
        raw_tokens(added(false)),
        normalized_tokens(added(true)),
        pairs(spec) {
    if (spec.model == TokenModel::word_pieces) pieces.emplace(spec);
    if (spec.model == TokenModel::unigram) unigram.emplace(spec);
    splits_pairs = !splitter.splits_at_spaces() && normalizer.replaces_spaces() &&
                   splitter.is_local() && pairs_begin_at_spaces(spec);
    cuttable = normalizer.is_local() && splitter.is_local() &&
               (splitter.splits_at_spaces() || splits_pairs) &&
               std::ranges::none_of(spec.added, can_be_crossed);
    for (std::uint32_t id = 0; id < spec.token_text.size(); ++id)
      ids.insert_or_assign(spec.token_text[id], id);
    spec.merges = {};
  }

  [[nodiscard]] std::optional<std::uint64_t> meaning() const override { return meaning_of_spec; }
  [[nodiscard]] std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(spec.token_text.size());
  }
  [[nodiscard]] std::optional<std::uint32_t> id_of(std::string_view token) const override {
    const auto found = ids.find(std::string(token));
    if (token.empty() || found == ids.end()) return std::nullopt;
    return found->second;
  }
  [[nodiscard]] std::string text_of(std::span<const std::uint32_t> tokens,
                                    bool begins) const override;
  [[nodiscard]] std::string post_processor() const override { return spec.post_processor; }
  [[nodiscard]] std::size_t last_cut(std::string_view of) const override {
    for (std::size_t at = of.size(); cuttable && at-- > 1;) {
      if (is_word_end(of, at)) return at;
    }
    return 0;
  }
  [[nodiscard]] std::size_t lookahead() const override { return 0; }
  [[nodiscard]] std::unique_ptr<EncoderKind> encoder() const override;

  TokenizerSpec spec;
  std::uint64_t meaning_of_spec;
  Normalizer normalizer;
  WordSplitter splitter;
  TokenText text;
  AddedTokens raw_tokens, normalized_tokens;
  BytePairs pairs;
  std::optional<WordPieces> pieces;
  std::optional<Unigram> unigram;
  std::unordered_map<std::string, std::uint32_t> ids;
  bool splits_pairs = false, cuttable = false;

 private:
  [[nodiscard]] std::vector<AddedToken> added(bool normalized) const {
    std::vector<AddedToken> found;
    Splitter::Scratch scratch;
    for (AddedToken token : spec.added) {
      if (token.normalized != normalized) continue;
      if (normalized) token.text = normalizer.apply(token.text, true, scratch);
      if (!token.text.empty()) found.push_back(std::move(token));
    }
    return found;
  }
};

std::string WordTokens::text_of(std::span<const std::uint32_t> tokens, bool begins) const {
  std::string whole;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < spec.token_text.size())
      whole += text.of(spec.token_text[tokens[i]], begins && i == 0);
  }
  if (begins) text.strip_start(whole);
  return whole;
}

class WordTokensEncoder final : public EncoderKind {
 public:
  explicit WordTokensEncoder(const WordTokens& of) : parts_(of) {}

  void encode(std::string_view text, bool begins, std::vector<std::uint32_t>& ids) override {
    raw_pieces_.clear();
    parts_.raw_tokens.split(text, scratch_, raw_pieces_);
    for (const TextPiece& piece : raw_pieces_) {
      const std::string_view inside =
          text.substr(piece.span.begin, piece.span.end - piece.span.begin);
      const bool starts = piece.span.begin == 0;
      piece.token ? ids.push_back(*piece.token)
                  : encode_raw(inside, !starts || begins, starts && begins, ids);
    }
  }
  // Nothing at a cut depends on what follows.
  [[nodiscard]] bool encode_part(std::string_view part, bool begins, std::string_view /*after*/,
                                 std::vector<std::uint32_t>& ids) override {
    encode(part, begins, ids);
    return true;
  }

 private:
  void encode_raw(std::string_view text, bool begins, bool first, std::vector<std::uint32_t>& ids) {
    const std::string whole = parts_.normalizer.apply(text, begins, scratch_);
    pieces_.clear();
    parts_.normalized_tokens.split(whole, scratch_, pieces_);
    for (const TextPiece& piece : pieces_) {
      if (piece.token) {
        ids.push_back(*piece.token);
        continue;
      }
      words_.clear();
      words_.push_back({whole.substr(piece.span.begin, piece.span.end - piece.span.begin),
                        first && piece.span.begin == 0});
      parts_.splitter.split(words_, scratch_);
      for (const WordSplitter::Word& word : words_)
        encode_word(word.text, ids);
    }
  }

  void encode_word(std::string_view word, std::vector<std::uint32_t>& ids) {
    if (parts_.pieces) return parts_.pieces->encode(word, ids);
    if (parts_.unigram) return parts_.unigram->encode(word, ids);
    std::size_t done = 0;
    for (std::size_t at = 1; parts_.splits_pairs && at < word.size(); ++at) {
      if (!is_ascii_letter(word[at - 1]) || !word.substr(at).starts_with(metaspace)) continue;
      parts_.pairs.encode(word.substr(done, at - done), pairs_, ids);
      done = at;
    }
    parts_.pairs.encode(word.substr(done), pairs_, ids);
  }

  const WordTokens& parts_;
  Splitter::Scratch scratch_;
  BytePairs::Scratch pairs_;
  std::vector<TextPiece> raw_pieces_, pieces_;
  std::vector<WordSplitter::Word> words_;
};

std::unique_ptr<EncoderKind> WordTokens::encoder() const {
  return std::make_unique<WordTokensEncoder>(*this);
}

}  // namespace

std::unique_ptr<const TokenizerKind> make_word_tokens(TokenizerSpec spec, const std::string& path) {
  return std::make_unique<const WordTokens>(path, std::move(spec));
}

}  // namespace trireme
