// SPDX-License-Identifier: Apache-2.0
// Continues texts, token by token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launch/engine/text/decoder.h"
#include "launch/engine/text/sampling.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

// One copy of the model, on the ranks of one data index: all of them make the same calls.
class TextGenerator {
 public:
  static constexpr std::int64_t half_the_context = -1;
  static constexpr std::int32_t ended = -2;  // instead of a token: of a text that goes no further

  // The session was made for a config that is resolved for Purpose::generate and must outlive this.
  // `forget`: how many tokens a text whose context is full forgets at once, from its beginning; the
  // others are read again, from position 0 on. 0: it ends there. Collective over the ranks of the
  // copy.
  TextGenerator(Session& session, const SamplingOptions& sampling,
                std::int64_t forget = half_the_context);

  [[nodiscard]] int texts() const { return decoder_.texts(); }  // train.micro_batch
  // Raises ExitCode::config for an id outside the vocabulary, and for more tokens than the context
  // has.
  void require_prompt(std::span<const std::int32_t> tokens) const;
  // Appends tokens to a text, the first of which are a prompt as above.
  void feed(std::span<const std::int32_t> tokens, int text = 0);
  // Of each text the next token, which is appended, or not_finite or `ended`. A text draws as it
  // would alone, with this seed. Those without tokens wait. Collective over the ranks of the copy.
  const std::vector<std::int32_t>& step();
  // The text gets no further tokens.
  void end(int text) { at(text).over = true; }
  // Another text takes its place.
  void restart(int text) { at(text) = {}; }
  // Of the only text, or the first. Nothing where the model's answer is not finite or it has ended.
  [[nodiscard]] std::optional<std::int32_t> next();

 private:
  struct Text {
    std::vector<std::int32_t> tokens;
    std::int64_t begin = 0;  // the token at position 0
    std::int64_t known = 0;  // positions that the decoder has read
    bool over = false;

    [[nodiscard]] std::int64_t unread() const { return std::ssize(tokens) - begin - known; }
  };
  void require_known(std::span<const std::int32_t> tokens) const;
  [[nodiscard]] Text& at(int text) { return texts_[static_cast<std::size_t>(text)]; }
  void make_room(Text& text) const;
  // The next piece of every text; false where there is none.
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
