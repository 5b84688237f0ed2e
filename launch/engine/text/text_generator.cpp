// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/text/text_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/base/philox.h"

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
    if (logits.empty()) continue;
    SamplingOptions sampling = sampling_;
    sampling.seed += text.sample;
    drawn_[i] = draw_token(logits, sampling, text.tokens.size());
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

namespace {

// The `count` most likely tokens, most likely first.
std::vector<std::int32_t> most_probable(std::span<const float> logits, std::size_t count) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return left > right || (left == right && a < b);
  });
  order.erase(end, order.end());
  return order;
}

// How many of the descending weights have this total share; at least one.
std::size_t nucleus(std::span<const double> weights, double share) {
  const double wanted = share * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || sum < wanted))
    sum += weights[count++];
  return count;
}

}  // namespace

std::int32_t draw_token(std::span<const float> logits, const SamplingOptions& options,
                        std::uint64_t position) {
  if (!std::ranges::all_of(logits, [](float value) { return std::isfinite(value); }))
    return not_finite;
  if (options.temperature == 0)
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  const auto order = most_probable(
      logits, options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : logits.size());
  const double top = static_cast<double>(logits[static_cast<std::size_t>(order.front())]);
  std::vector<double> weights(order.size());
  std::ranges::transform(order, weights.begin(), [&](std::int32_t token) {
    return std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - top) /
                    options.temperature);
  });
  if (options.top_p < 1) weights.resize(nucleus(weights, options.top_p));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto words = Philox::keyed(options.seed, RandomPurpose::sample)(0, position);
  double left = static_cast<double>(Philox::uniform(words[0])) * total;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[weights.size() - 1];
}

}  // namespace trireme
