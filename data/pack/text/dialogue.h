// SPDX-License-Identifier: Apache-2.0
// Fine-tuning examples in JSON lines: prompts are read, answers are learned.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/pack/pack_text.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

// Tokens, and per token 1 if it is a target, else 0.
struct MarkedTokens {
  std::vector<std::uint32_t>& ids;
  std::vector<std::uint8_t>& counted;
};

// Thread-safe.
class Dialogue {
 public:
  // Rendered: {"ids": [...], "learn": [0 or 1, ...]}, tokens of a program that knew the template.
  // Without a template: {"prompt": text, "completion": text}, each encoded alone. `tokenizer` is
  // null for bytes, which have no template. Raises ExitCode::config, naming `tokenizer_path`, if it
  // lacks a special token of the template.
  Dialogue(const Tokenizer* tokenizer, ChatTemplate chat, const std::string& tokenizer_path);

  // Appends the line's tokens. Targets are those of the completion and the `end` after it, or in a
  // conversation those of the assistant's contents and the token that ends its turn. As in
  // transformers, a token that spans the end of a header and the start of a content is a target.
  // Returns the line's problem, or "".
  [[nodiscard]] std::string encode(std::string_view line, TextEncoder* encoder,
                                   std::span<const std::uint32_t> end, MarkedTokens to) const;

 private:
  [[nodiscard]] std::string encode_pair(std::string_view line, TextEncoder* encoder,
                                        std::span<const std::uint32_t> end, MarkedTokens to) const;
  [[nodiscard]] std::string encode_rendered(std::string_view line, MarkedTokens to) const;
  void encode_message(const std::string& role, std::string_view content, TextEncoder& encoder,
                      MarkedTokens to) const;
  // Number of tokens that end within the first `bytes` of their text.
  [[nodiscard]] std::size_t tokens_within(std::span<const std::uint32_t> ids,
                                          std::size_t bytes) const;

  const Tokenizer* tokenizer_;
  ChatTemplate chat_;
  std::uint32_t begin_ = 0, header_end_ = 0, turn_end_ = 0;
};

// Reads the text of `field`. False if there is none; then `text` says why.
[[nodiscard]] bool read_json_line(std::string_view line, const std::string& field,
                                  std::string& text);

}  // namespace trireme
