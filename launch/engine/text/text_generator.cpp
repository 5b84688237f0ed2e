// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/text/text_generator.h"

#include <algorithm>

namespace trireme {

TextGenerator::TextGenerator(Session& session, const SamplingOptions& sampling, std::int64_t forget)
    : session_(session),
      sampling_(sampling),
      decoder_(session),
      forget_(forget == half_the_context ? std::max<std::int64_t>(decoder_.capacity() / 2, 1)
                                         : forget),
      texts_(static_cast<std::size_t>(decoder_.texts())) {
  TRIREME_EXPECTS(forget_ >= 0 && forget_ <= decoder_.capacity(),
                  "{} tokens to forget of a context of {}", forget_, decoder_.capacity());
}

void TextGenerator::require_known(std::span<const std::int32_t> tokens) const {
  const std::int64_t vocabulary = session_.traits().vocabulary;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      fail(ExitCode::config, "token id {} lies outside the model's vocabulary [0, {})", token,
           vocabulary);
    }
  }
}

void TextGenerator::require_prompt(std::span<const std::int32_t> tokens) const {
  require_known(tokens);
  if (std::ssize(tokens) > decoder_.capacity()) {
    fail(ExitCode::config,
         "a prompt of {} tokens is longer than the context of {}; give its last {} at most",
         tokens.size(), decoder_.capacity(), decoder_.capacity());
  }
}

void TextGenerator::feed(std::span<const std::int32_t> tokens, int text) {
  Text& to = at(text);
  to.tokens.empty() ? require_prompt(tokens) : require_known(tokens);
  to.tokens.insert(to.tokens.end(), tokens.begin(), tokens.end());
}

void TextGenerator::make_room(Text& text) const {
  const std::int64_t length = std::ssize(text.tokens) - text.begin;
  if (length <= decoder_.capacity()) return;
  if (forget_ == 0) {
    text.over = true;
    return;
  }
  text.begin = std::ssize(text.tokens) - (decoder_.capacity() + 1 - forget_);
  text.known = 0;
}

bool TextGenerator::read_pieces() {
  std::vector<Decoder::Piece> pieces(texts_.size());
  bool some = false, complete = false;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const Text& text = texts_[i];
    if (text.over || text.unread() <= 0) continue;
    const std::int64_t count = std::min(text.unread(), decoder_.rows());
    pieces[i] = {text.known, std::span(text.tokens)
                                 .subspan(static_cast<std::size_t>(text.begin + text.known),
                                          static_cast<std::size_t>(count))};
    some = true;
    complete = complete || count == text.unread();
  }
  if (!some) return false;
  decoder_.read(pieces, complete);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    Text& text = texts_[i];
    text.known += std::ssize(pieces[i].tokens);
    if (pieces[i].tokens.empty() || text.unread() > 0) continue;
    const auto logits = decoder_.logits(static_cast<int>(i));
    if (!logits.empty()) drawn_[i] = draw_token(logits, sampling_, text.tokens.size());
  }
  return true;
}

// The last stage has drawn the token.
void TextGenerator::tell_all_stages() {
  Communicator& pipeline = session_.mesh.pipeline();
  const Tensor told{reinterpret_cast<std::byte*>(drawn_.data()), DType::i32,
                    Shape{std::ssize(drawn_)}};
  pipeline.broadcast(*host_, told, pipeline.size() - 1);
}

const std::vector<std::int32_t>& TextGenerator::step() {
  for (Text& text : texts_)
    make_room(text);
  drawn_.assign(texts_.size(), ended);
  while (read_pieces()) {
  }
  tell_all_stages();
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (drawn_[i] >= 0) texts_[i].tokens.push_back(drawn_[i]);
    if (drawn_[i] == not_finite) texts_[i].over = true;
  }
  return drawn_;
}

std::optional<std::int32_t> TextGenerator::next() {
  TRIREME_EXPECTS(!texts_.front().tokens.empty(), "a text to continue");
  const std::int32_t token = step().front();
  return token < 0 ? std::nullopt : std::optional(token);
}

}  // namespace trireme
