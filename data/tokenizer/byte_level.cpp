// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE from a tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/byte_pairs.h"
#include "data/tokenizer/letters.h"
#include "data/tokenizer/spec.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/tokenizer_kind.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

bool is_space(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// Between a word and a space, or after a line end. Most patterns start a piece there, and
// encode_part() checks that.
bool may_cut(char before, char behind, bool only_before_space) {
  if (is_ascii_letter(before) && behind == ' ') return true;
  return !only_before_space && before == '\n' && !is_space(behind);
}

std::vector<AddedToken> added_tokens_of(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> found;
  std::string buffer;
  for (AddedToken token : spec.added) {
    if (token.normalized != normalized) continue;
    if (normalized && spec.composes) token.text = composed(std::string(token.text), buffer);
    found.push_back(std::move(token));
  }
  return found;
}

// Added tokens must not cross a cut.
bool can_be_cut(const TokenizerSpec& spec) {
  return std::ranges::none_of(spec.added, [&](const AddedToken& token) {
    if (token.single_word || token.strip_left || token.strip_right) return true;
    for (std::size_t i = 1; i < token.text.size(); ++i) {
      if (may_cut(token.text[i - 1], token.text[i], spec.prefix_space)) return true;
    }
    return false;
  });
}

class ByteLevel final : public TokenizerKind {
 public:
  ByteLevel(const std::string& path, TokenizerSpec read)
      : spec(std::move(read)),
        meaning_of_spec(checksum_of(spec)),
        raw_tokens(added_tokens_of(spec, false)),
        normalized_tokens(added_tokens_of(spec, true)),
        pairs(spec) {
    for (const SplitRule& rule : spec.splits)
      splitters.emplace_back(rule, path);
    cuttable = can_be_cut(spec) && !splitters.empty() && splitters.front().is_local();
    for (const AddedToken& token : spec.added) {
      ids.emplace(token.text, token.id);
      longest_added = std::max(longest_added, token.text.size());
    }
    spec.merges = {};
  }

  [[nodiscard]] std::optional<std::uint64_t> meaning() const override { return meaning_of_spec; }
  [[nodiscard]] std::uint32_t vocabulary() const override {
    return static_cast<std::uint32_t>(spec.token_text.size());
  }
  [[nodiscard]] std::optional<std::uint32_t> id_of(std::string_view token) const override;
  [[nodiscard]] std::string text_of(std::span<const std::uint32_t> tokens,
                                    bool /*begins*/) const override {
    std::string text;
    for (const std::uint32_t id : tokens)
      text += id < spec.token_text.size() ? spec.token_text[id] : std::string();
    return text;
  }
  [[nodiscard]] bool keeps_text() const override { return true; }
  [[nodiscard]] std::string post_processor() const override { return spec.post_processor; }
  [[nodiscard]] std::size_t last_cut(std::string_view text) const override;
  [[nodiscard]] std::size_t lookahead() const override {
    constexpr std::size_t pieces = 1024;  // more than a piece depends on, except in odd texts
    return 2 * longest_added + pieces;
  }
  [[nodiscard]] std::unique_ptr<EncoderKind> encoder() const override;

  TokenizerSpec spec;
  std::uint64_t meaning_of_spec;
  AddedTokens raw_tokens, normalized_tokens;
  BytePairs pairs;
  std::vector<Splitter> splitters;
  std::unordered_map<std::string, std::uint32_t> ids;  // of added tokens
  std::size_t longest_added = 0;
  bool cuttable = false;
};

std::optional<std::uint32_t> ByteLevel::id_of(std::string_view token) const {
  if (const auto added = ids.find(std::string(token)); added != ids.end()) return added->second;
  const auto& all = spec.token_text;
  const auto found = std::ranges::find(all, token);
  if (token.empty() || found == all.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - all.begin());
}

std::size_t ByteLevel::last_cut(std::string_view text) const {
  if (!cuttable || text.size() < 2) return 0;
  for (std::size_t at = text.size() - 1; at > 0; --at) {
    if (may_cut(text[at - 1], text[at], spec.prefix_space)) return at;
  }
  return 0;
}

class ByteLevelEncoder final : public EncoderKind {
 public:
  explicit ByteLevelEncoder(const ByteLevel& of) : parts(of) {}
  void encode(std::string_view text, bool begins, std::vector<std::uint32_t>& ids) override;
  [[nodiscard]] bool encode_part(std::string_view part, bool begins, std::string_view after,
                                 std::vector<std::uint32_t>& ids) override;

 private:
  // Up to `stop`, of a text that is known up to `known`; if that exceeds its size, all of it is.
  // False: no piece ends at `stop`.
  bool encode_raw(std::string_view text, std::size_t stop, std::size_t known,
                  std::vector<std::uint32_t>& ids);
  // Up to `stop`, of a text that continues if `open`.
  bool encode_normalized(std::string_view text, std::size_t stop, bool open,
                         std::vector<std::uint32_t>& ids);
  bool encode_between(std::string_view text, std::size_t stop, bool open,
                      std::vector<std::uint32_t>& ids);

  const ByteLevel& parts;
  BytePairs::Scratch pairs;
  Splitter::Scratch splitter;
  std::vector<TextPiece> raw_pieces, pieces;
  std::vector<TextSpan> spans, finer;
  std::string composed_part, composed_rest, joined;
};

std::unique_ptr<EncoderKind> ByteLevel::encoder() const {
  return std::make_unique<ByteLevelEncoder>(*this);
}

void ByteLevelEncoder::encode(std::string_view text, bool /*begins*/,
                              std::vector<std::uint32_t>& ids) {
  if (!encode_raw(text, text.size(), text.size() + 1, ids))
    TRIREME_EXPECTS(false, "a text of {} bytes must end at a piece", text.size());
}

// The start of a part does not matter.
bool ByteLevelEncoder::encode_part(std::string_view part, bool /*begins*/, std::string_view after,
                                   std::vector<std::uint32_t>& ids) {
  const std::size_t before = ids.size();
  const std::string text = fmt::format("{}{}", part, after);
  // The end may hold only a part of an added token, which must not be encoded as text.
  std::size_t known = text.size() - std::min(after.size(), 2 * parts.longest_added);
  while (known > part.size() && (static_cast<unsigned char>(text[known]) & 0xC0U) == 0x80)
    --known;
  if (encode_raw(text, part.size(), known, ids)) return true;
  ids.resize(before);
  return false;
}

bool ByteLevelEncoder::encode_raw(std::string_view text, std::size_t stop, std::size_t known,
                                  std::vector<std::uint32_t>& ids) {
  raw_pieces.clear();
  parts.raw_tokens.split(text, splitter, raw_pieces);
  for (const TextPiece& piece : raw_pieces) {
    if (piece.span.begin >= stop) break;
    if (piece.token) {
      ids.push_back(*piece.token);
      continue;
    }
    const bool open =
        piece.span.end > known || (piece.span.end == text.size() && known == text.size());
    const std::size_t last = std::min(piece.span.end, known), end = std::min(last, stop);
    const std::string_view inside = text.substr(piece.span.begin, end - piece.span.begin);
    const std::string_view rest = text.substr(end, last - end);
    if (!parts.spec.composes) {
      const auto both = text.substr(piece.span.begin, last - piece.span.begin);
      if (!encode_normalized(both, inside.size(), open, ids)) return false;
      continue;
    }
    // No composition crosses a cut.
    std::string_view whole = composed(inside, composed_part);
    const std::size_t inside_size = whole.size();
    if (!rest.empty()) {
      joined = fmt::format("{}{}", whole, composed(rest, composed_rest));
      whole = joined;
    }
    if (!encode_normalized(whole, inside_size, open, ids)) return false;
  }
  return true;
}

bool ByteLevelEncoder::encode_normalized(std::string_view text, std::size_t stop, bool open,
                                         std::vector<std::uint32_t>& ids) {
  pieces.clear();
  parts.normalized_tokens.split(text, splitter, pieces);
  for (const TextPiece& piece : pieces) {
    if (piece.span.begin >= stop) break;
    if (piece.token) {
      ids.push_back(*piece.token);
      continue;
    }
    const std::string_view between =
        text.substr(piece.span.begin, piece.span.end - piece.span.begin);
    const bool goes_on = open && piece.span.end == text.size();
    if (!encode_between(between, std::min(piece.span.end, stop) - piece.span.begin, goes_on, ids))
      return false;
  }
  return true;
}

bool ByteLevelEncoder::encode_between(std::string_view text, std::size_t stop, bool open,
                                      std::vector<std::uint32_t>& ids) {
  std::string with_space;
  if (parts.spec.prefix_space && text[0] != ' ') {
    with_space = fmt::format(" {}", text);
    text = with_space;
    ++stop;
  }
  spans.clear();
  if (parts.splitters.empty()) spans.push_back({0, text.size()});
  for (std::size_t i = 0; i < parts.splitters.size(); ++i) {
    const Splitter& rule = parts.splitters[i];
    if (i > 0) {
      finer.clear();
      for (const TextSpan& span : spans) {
        const std::size_t first = finer.size();
        rule.split(text.substr(span.begin, span.end - span.begin), splitter, finer);
        for (std::size_t j = first; j < finer.size(); ++j)
          finer[j] = {finer[j].begin + span.begin, finer[j].end + span.begin};
      }
      std::swap(spans, finer);
    } else if (stop < text.size() || open) {
      if (rule.split_part(text, stop, open, splitter, spans) != stop) return false;
    } else {
      rule.split(text, splitter, spans);
    }
  }
  for (const TextSpan& span : spans)
    parts.pairs.encode(text.substr(span.begin, span.end - span.begin), pairs, ids);
  return true;
}

}  // namespace

std::unique_ptr<const TokenizerKind> open_tokenizer_json(const std::string& text,
                                                         const std::string& path) {
  TokenizerSpec spec = parse_tokenizer(text, path);
  if (spec.model != TokenModel::byte_pairs) return make_word_tokens(std::move(spec), path);
  return std::make_unique<const ByteLevel>(path, std::move(spec));
}

}  // namespace trireme
