// SPDX-License-Identifier: Apache-2.0
// The interface of the kinds of tokenizers behind Tokenizer and TextEncoder (tokenizer.h documents
// the functions).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/spec.h"

namespace trireme {

// For one thread.
class EncoderKind {
 public:
  virtual ~EncoderKind() = default;
  virtual void encode(std::string_view text, bool begins, std::vector<std::uint32_t>& ids) = 0;
  [[nodiscard]] virtual bool encode_part(std::string_view part, bool begins, std::string_view after,
                                         std::vector<std::uint32_t>& ids) = 0;
};

class TokenizerKind {
 public:
  virtual ~TokenizerKind() = default;
  // Equal if all texts have the same tokens; empty if the kind cannot decide.
  [[nodiscard]] virtual std::optional<std::uint64_t> meaning() const { return std::nullopt; }
  [[nodiscard]] virtual std::uint32_t vocabulary() const = 0;
  [[nodiscard]] virtual std::optional<std::uint32_t> id_of(std::string_view token) const = 0;
  // `begins`: the tokens begin a text.
  [[nodiscard]] virtual std::string text_of(std::span<const std::uint32_t> ids,
                                            bool begins) const = 0;
  // Whether the texts of a text's tokens, one after the other, are that text.
  [[nodiscard]] virtual bool keeps_text() const { return false; }
  // As JSON; "": none.
  [[nodiscard]] virtual std::string post_processor() const { return ""; }
  [[nodiscard]] virtual std::size_t last_cut(std::string_view text) const = 0;
  [[nodiscard]] virtual std::size_t lookahead() const = 0;
  [[nodiscard]] virtual std::unique_ptr<EncoderKind> encoder() const = 0;
};

// From the content of the file `path`. Raise ExitCode::data, naming it and the problem.
[[nodiscard]] std::unique_ptr<const TokenizerKind> open_tokenizer_json(const std::string& text,
                                                                       const std::string& path);
[[nodiscard]] std::unique_ptr<const TokenizerKind> make_word_tokens(TokenizerSpec spec,
                                                                    const std::string& path);
[[nodiscard]] std::unique_ptr<const TokenizerKind> open_sentence_piece(const std::string& content,
                                                                       const std::string& path);

}  // namespace trireme
