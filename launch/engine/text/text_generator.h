// SPDX-License-Identifier: Apache-2.0
// Continues texts, token by token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launch/engine/text/decoder.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

// Draws a token from a model's logits.
struct SamplingOptions {
  double temperature = 0.8;  // 0: the most likely token
  std::int64_t top_k = 0;    // sample from the k most likely tokens; 0: all
  double top_p = 1;          // sample from the most likely tokens with this total probability
  std::uint64_t seed = 1234;
};

inline constexpr std::int32_t not_finite = -1;  // instead of a token

// `position`: number of tokens in the text. Equal seed, position and logits give the same token;
// ties go to the lowest id. Returns not_finite if a logit is not finite.
[[nodiscard]] std::int32_t draw_token(std::span<const float> logits, const SamplingOptions& options,
                                      std::uint64_t position);

// One model replica, on the ranks of one data index; all of them make the same calls.
class TextGenerator {
 public:
  static constexpr std::int64_t half_the_context = -1;
  static constexpr std::int32_t ended = -2;  // instead of a token: the text has ended

  // The session must be for a config resolved for Purpose::generate, and outlive this. `forget`:
  // number of first tokens that a text drops when its context is full; the rest is read again from
  // position 0. 0: the text ends. Collective over the replica's ranks.
  TextGenerator(Session& session, const SamplingOptions& sampling,
                std::int64_t forget = half_the_context);

  [[nodiscard]] int texts() const { return decoder_.texts(); }  // train.micro_batch
  // Raises ExitCode::config for an id outside the vocabulary, and for more tokens than the context.
  void require_prompt(std::span<const std::int32_t> tokens) const;
  // Appends tokens to a text; the first ones are a prompt as above.
  void feed(std::span<const std::int32_t> tokens, int text = 0);
  // Appends and returns each text's next token; or returns not_finite or `ended`. Each text draws
  // as if alone with this seed. Empty texts wait. Collective over the replica's ranks.
  const std::vector<std::int32_t>& step();
  // Ends the text.
  void end(int text) { at(text).over = true; }
  // Frees the slot for another text, which draws with the seed plus `sample`.
  void restart(int text, std::uint64_t sample = 0) { at(text) = {.sample = sample}; }
  // For a single text, or the first. Nothing if it has ended or a logit is not finite.
  [[nodiscard]] std::optional<std::int32_t> next();

 private:
  struct Text {
    std::vector<std::int32_t> tokens{};
    std::int64_t begin = 0;  // index of the token at position 0
    std::int64_t known = 0;  // positions in the decoder's cache
    bool over = false;
    std::uint64_t sample = 0;

    [[nodiscard]] std::int64_t unread() const { return std::ssize(tokens) - begin - known; }
  };
  void require_known(std::span<const std::int32_t> tokens) const;
  [[nodiscard]] Text& at(int text) { return texts_[static_cast<std::size_t>(text)]; }
  void make_room(Text& text) const;
  // Reads the next piece of every text; false if there is none.
  bool read_pieces();
  void tell_all_stages();

  Session& session_;
  SamplingOptions sampling_;
  Decoder decoder_;
  std::int64_t forget_;
  HostStream host_;
  std::vector<Text> texts_;
  std::vector<std::int32_t> drawn_;
};

}  // namespace trireme
