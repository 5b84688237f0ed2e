// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/word_models.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/utf8.h"

namespace trireme {

void TokenTrie::add(std::string_view text, std::uint32_t id) {
  std::uint32_t node = 0;
  for (const char byte : text) {
    const auto [next, fresh] =
        edges_.emplace(edge(node, byte), static_cast<std::uint32_t>(ids_.size()));
    if (fresh) ids_.push_back(-1);
    node = next->second;
  }
  ids_[node] = id;
}

WordPieces::WordPieces(const TokenizerSpec& spec)
    : unknown_(spec.unknown), longest_(spec.longest_word) {
  for (std::uint32_t id = 0; id < spec.token_text.size(); ++id) {
    if (!spec.is_word[id]) continue;
    const std::string_view text = spec.token_text[id];
    begins_.add(text, id);
    if (text.starts_with(spec.continuing)) continues_.add(text.substr(spec.continuing.size()), id);
  }
}

void WordPieces::encode(std::string_view word, std::vector<std::uint32_t>& ids) const {
  const auto characters = std::ranges::count_if(
      word, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; });
  const std::size_t first = ids.size();
  bool whole = static_cast<std::size_t>(characters) <= longest_;
  for (std::size_t at = 0; whole && at < word.size();) {
    std::size_t longest = 0;
    std::uint32_t token = 0;
    (at == 0 ? begins_ : continues_)
        .visit(word.substr(at), [&](std::size_t bytes, std::uint32_t id) {
          longest = bytes;
          token = id;
        });
    ids.push_back(token);
    at += longest;
    whole = longest > 0;
  }
  if (whole) return;
  ids.resize(first);
  ids.push_back(unknown_);
}

Unigram::Unigram(const TokenizerSpec& spec) : spec_(spec) {
  constexpr double unknown_penalty = 10;  // as in SentencePiece
  for (std::uint32_t id = 0; id < spec.scores.size(); ++id)
    tokens_.add(spec.token_text[id], id);
  unknown_score_ = *std::ranges::min_element(spec.scores) - unknown_penalty;
}

void Unigram::add_unknown(std::string_view text, std::vector<std::uint32_t>& reversed) const {
  if (!spec_.byte_fallback || text == spec_.token_text[spec_.unknown])
    return reversed.push_back(spec_.unknown);
  for (auto byte = text.rbegin(); byte != text.rend(); ++byte)
    reversed.push_back(spec_.byte_ids[static_cast<unsigned char>(*byte)]);
}

void Unigram::encode(std::string_view word, std::vector<std::uint32_t>& ids) const {
  constexpr std::size_t none = ~std::size_t{0};
  struct Path {
    double score = 0;
    std::size_t begin = none;  // of its last token
    std::uint32_t token = 0;
  };
  std::vector<Path> best(word.size() + 1);  // by the byte where they end
  for (std::size_t at = 0, next = 0; at < word.size(); at = next) {
    static_cast<void>(next_code_point(word, next));
    const auto offer = [&, at](std::size_t end, double score, std::uint32_t token) {
      Path& path = best[end];
      score += best[at].score;
      if (path.begin == none || score > path.score) path = {score, at, token};
    };
    bool single = false;
    tokens_.visit(word.substr(at), [&](std::size_t bytes, std::uint32_t id) {
      offer(at + bytes, spec_.scores[id], id);
      single |= at + bytes == next;
    });
    if (!single) offer(next, unknown_score_, spec_.unknown);
  }
  std::vector<std::uint32_t> reversed;
  for (std::size_t end = word.size(); end > 0;) {
    const Path& path = best[end];
    std::size_t begin = path.begin;
    if (path.token != spec_.unknown) {
      reversed.push_back(path.token);
    } else {
      while (begin > 0 && best[begin].token == spec_.unknown)
        begin = best[begin].begin;
      add_unknown(word.substr(begin, end - begin), reversed);
    }
    end = begin;
  }
  std::copy(reversed.rbegin(), reversed.rend(), std::back_inserter(ids));
}

}  // namespace trireme
