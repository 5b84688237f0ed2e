// SPDX-License-Identifier: Apache-2.0
// Text to tokens and back: byte-level BPE, as the tokenizer.json of a Hugging Face model says, and
// SentencePiece models where the program has been built with its library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class EncoderKind;
class TokenizerKind;

// Any number of threads may use one.
class Tokenizer {
 public:
  // Raises ExitCode::data, naming the file and what is wrong or not supported.
  explicit Tokenizer(const std::string& path);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // "huggingface:<file name>:xxh3=<16 hex digits of the file>:tokens=<16 hex digits of what it
  // says>", or "sentencepiece:..." without the last, which shards keep.
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::uint32_t vocabulary() const;  // every id is below
  [[nodiscard]] std::optional<std::uint32_t> id_of(std::string_view token) const;
  // The bytes that the tokens stand for. Ids that no token has stand for none. Of SentencePiece a
  // space before the first word stays.
  [[nodiscard]] std::string text_of(std::span<const std::uint32_t> ids) const;

  // A place before the end of `text` where a long text may be cut so that it can be encoded in
  // parts, see TextEncoder::encode_part(): the last one; 0: there is none.
  [[nodiscard]] std::size_t last_cut(std::string_view text) const;
  // Bytes behind a cut that show how the part before it is encoded.
  [[nodiscard]] std::size_t lookahead() const;

 private:
  friend class TextEncoder;
  std::string name_;
  std::unique_ptr<const TokenizerKind> kind_;
};

// Tokenizer::name() of a file of any kind; of one that is not read here, and of which only the file
// tells what it says, without the last part. Raises ExitCode::data where it cannot be read.
[[nodiscard]] std::string tokenizer_name(const std::string& path);

// Of one thread. The tokenizer must outlive it.
class TextEncoder {
 public:
  explicit TextEncoder(const Tokenizer& tokenizer);
  ~TextEncoder();
  TextEncoder(TextEncoder&&) noexcept;

  // Appends the tokens of `text`, which is valid UTF-8, without those that a post-processor would
  // add. `begins` is false for the last part of a text that was encoded in parts.
  void encode(std::string_view text, std::vector<std::uint32_t>& ids, bool begins = true);

  // Appends the tokens of a part of a text that ends at a place of Tokenizer::last_cut(), followed
  // by `after` (some of the text behind it, or all); `begins`: it is the first. False, and no
  // tokens, where the whole text does not fall into pieces there; then it has to be encoded
  // together with what follows.
  [[nodiscard]] bool encode_part(std::string_view part, bool begins, std::string_view after,
                                 std::vector<std::uint32_t>& ids);

 private:
  std::unique_ptr<EncoderKind> kind_;
};

}  // namespace trireme
