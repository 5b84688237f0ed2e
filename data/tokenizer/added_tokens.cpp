// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/letters.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

// A word character, as in Rust's regular expressions.
constexpr const char* word_letter = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";

// Start of the code point that ends at `end`.
std::size_t previous(std::string_view text, std::size_t end) {
  do
    --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80);
  return end;
}

std::size_t after_white_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_white_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

std::size_t before_white_space(std::string_view text, std::size_t end) {
  while (end > 0) {
    std::size_t start = previous(text, end);
    const std::size_t begin = start;
    if (!is_white_space(next_code_point(text, start))) break;
    end = begin;
  }
  return end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), nodes_(1), begins_(256) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::uint32_t node = 0;
    for (const char letter : tokens_[i].text) {
      const auto byte = static_cast<unsigned char>(letter);
      auto& next = nodes_[node].next;
      const auto found = std::ranges::find(next, byte, [](const auto& edge) { return edge.first; });
      if (found != next.end()) {
        node = found->second;
        continue;
      }
      next.emplace_back(byte, static_cast<std::uint32_t>(nodes_.size()));
      node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    }
    if (nodes_[node].token < 0) nodes_[node].token = static_cast<std::int32_t>(i);
    begins_[static_cast<unsigned char>(tokens_[i].text[0])] = true;
    if (tokens_[i].single_word && !word_)
      word_.emplace(SplitRule{.pattern = word_letter}, "words around added tokens");
  }
}

const AddedToken* AddedTokens::find(std::string_view text, std::size_t at) const {
  const AddedToken* longest = nullptr;
  for (std::uint32_t node = 0; at < text.size(); ++at) {
    const auto& next = nodes_[node].next;
    const auto found = std::ranges::find(next, static_cast<unsigned char>(text[at]),
                                         [](const auto& edge) { return edge.first; });
    if (found == next.end()) break;
    node = found->second;
    if (nodes_[node].token >= 0) longest = &tokens_[static_cast<std::size_t>(nodes_[node].token)];
  }
  return longest;
}

bool AddedTokens::stands_alone(std::string_view text, TextSpan span,
                               Splitter::Scratch& scratch) const {
  const auto touches = [&](std::size_t begin, std::size_t end) {
    return word_->matches(text.substr(begin, end - begin), scratch);
  };
  if (span.begin > 0 && touches(previous(text, span.begin), span.begin)) return false;
  std::size_t end = span.end;
  if (end == text.size()) return true;
  static_cast<void>(next_code_point(text, end));
  return !touches(span.end, end);
}

void AddedTokens::split(std::string_view text, Splitter::Scratch& scratch,
                        std::vector<TextPiece>& pieces) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const AddedToken* const token = find(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    TextSpan span{at, at + token->text.size()};
    at = span.end;
    if (token->single_word && !stands_alone(text, span, scratch)) continue;
    if (token->strip_left) span.begin = std::max(done, before_white_space(text, span.begin));
    if (token->strip_right) span.end = after_white_space(text, span.end);
    if (done < span.begin) pieces.push_back({{done, span.begin}, {}});
    pieces.push_back({span, token->id});
    done = span.end;
  }
  if (done < text.size()) pieces.push_back({{done, text.size()}, {}});
}

}  // namespace trireme
