// SPDX-License-Identifier: Apache-2.0
// Converts text to tokens and back: BPE, WordPiece and Unigram from the tokenizer.json of a Hugging
// Face model, and SentencePiece models if the program was built with its library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/text_frame.h"

namespace trireme {

class EncoderKind;
class TokenizerKind;

// Thread-safe.
class Tokenizer {
 public:
  // Raises ExitCode::data, naming the file and the invalid or unsupported part.
  explicit Tokenizer(const std::string& path);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // "huggingface:<file name>:xxh3=<16 hex digits of the file>:tokens=<16 hex digits of its
  // meaning>", or "sentencepiece:..." without the last part; stored in shards.
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::uint32_t vocabulary() const;  // above every id
  [[nodiscard]] std::optional<std::uint32_t> id_of(std::string_view token) const;
  // The bytes of the tokens. Unknown ids have none. `begins`: no token is before them, so that
  // tokenizers that are not byte-level drop the space before the first word; not with
  // SentencePiece.
  [[nodiscard]] std::string text_of(std::span<const std::uint32_t> ids, bool begins = false) const;
  // Whether the texts of a text's tokens, one after the other, are that text (in NFC if so
  // normalized), as with byte-level BPE.
  [[nodiscard]] bool keeps_text() const;

  // The tokens that the post-processor puts around one text, or around and between two. encode()
  // does not add them. Empty without a post-processor, and for SentencePiece. Raises
  // ExitCode::data, naming the file and the part, for post-processors that are not of this form.
  [[nodiscard]] TextFrame frame(bool pair = false) const;

  // The last place before the end of `text` where it may be cut for encoding in parts, see
  // TextEncoder::encode_part(); 0: there is none.
  [[nodiscard]] std::size_t last_cut(std::string_view text) const;
  // Bytes after a cut that determine how the part before it is encoded.
  [[nodiscard]] std::size_t lookahead() const;

 private:
  friend class TextEncoder;
  std::string path_, name_;
  std::unique_ptr<const TokenizerKind> kind_;
};

// Tokenizer::name() for a file of any kind; without the last part for an unsupported kind. Raises
// ExitCode::data if it cannot be read.
[[nodiscard]] std::string tokenizer_name(const std::string& path);

// For one thread. The tokenizer must outlive it.
class TextEncoder {
 public:
  explicit TextEncoder(const Tokenizer& tokenizer);
  ~TextEncoder();
  TextEncoder(TextEncoder&&) noexcept;

  // Appends the tokens of `text`, valid UTF-8, without those of a post-processor. `begins` is false
  // for the last part of a text that was encoded in parts.
  void encode(std::string_view text, std::vector<std::uint32_t>& ids, bool begins = true);

  // Appends the tokens of a part of a text that ends at a place of Tokenizer::last_cut(), followed
  // by `after` (some or all of the text after it); `begins`: it is the first. Returns false,
  // without tokens, if the whole text would not be split there; then encode it together with what
  // follows.
  [[nodiscard]] bool encode_part(std::string_view part, bool begins, std::string_view after,
                                 std::vector<std::uint32_t>& ids);

 private:
  std::unique_ptr<EncoderKind> kind_;
};

}  // namespace trireme
