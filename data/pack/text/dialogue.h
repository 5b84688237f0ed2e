// SPDX-License-Identifier: Apache-2.0
// Examples for fine-tuning, one a JSON line: what was asked is read, what is answered is learnt.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/pack/pack_text.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

// Tokens, and 1 for each that is a target, else 0.
struct MarkedTokens {
  std::vector<std::uint32_t>& ids;
  std::vector<std::uint8_t>& counted;
};

// Any number of threads may use one.
class Dialogue {
 public:
  // Without a template: {"prompt": text, "completion": text}, each encoded alone. `tokenizer` is
  // null for bytes, which have no template. Raises ExitCode::config, naming `tokenizer_path`, where
  // it lacks a special token of the template.
  Dialogue(const Tokenizer* tokenizer, ChatTemplate chat, const std::string& tokenizer_path);

  // Appends the tokens of the line. Those of the completion and the `end` behind it count; of a
  // conversation those of the assistant's contents with the token that ends its turn. A token that
  // holds the end of a header and the begin of a content counts, as with transformers. Returns what
  // is wrong with the line, or "" where nothing is.
  [[nodiscard]] std::string encode(std::string_view line, TextEncoder* encoder,
                                   std::span<const std::uint32_t> end, MarkedTokens to) const;

 private:
  [[nodiscard]] std::string encode_pair(std::string_view line, TextEncoder* encoder,
                                        std::span<const std::uint32_t> end, MarkedTokens to) const;
  void encode_message(const std::string& role, std::string_view content, TextEncoder& encoder,
                      MarkedTokens to) const;
  // How many of the tokens end in the first `bytes` of their text.
  [[nodiscard]] std::size_t tokens_within(std::span<const std::uint32_t> ids,
                                          std::size_t bytes) const;

  const Tokenizer* tokenizer_;
  ChatTemplate chat_;
  std::uint32_t begin_ = 0, header_end_ = 0, turn_end_ = 0;
};

}  // namespace trireme
