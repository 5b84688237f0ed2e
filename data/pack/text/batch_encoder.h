// SPDX-License-Identifier: Apache-2.0
// Encodes batches of text to tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/pack/text/dialogue.h"
#include "data/pack/text/text_batch.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

struct EncodeOptions {
  const Tokenizer* tokenizer = nullptr;       // null: tokens are bytes
  std::vector<std::uint32_t> begin{}, end{};  // of each document
  std::string json_field{};                   // empty: no JSON lines, or dialogues
  const Dialogue* dialogue = nullptr;         // if the JSON lines are dialogues
  bool skip_bad = false;                      // lines
  bool refuse_invalid = false;                // UTF-8, which is otherwise replaced
};

// For one thread. The options must outlive it.
class BatchEncoder {
 public:
  explicit BatchEncoder(const EncodeOptions& options);

  void encode(TextBatch& batch);
  // Appends to `ids` the tokens of parts that encode() left open, concatenated, and of the last of
  // them, the first part of `next`. False if that is open too.
  [[nodiscard]] bool encode_joined(const std::string& open, bool begins, TextBatch& next,
                                   std::vector<std::uint32_t>& ids);

 private:
  void encode_lines(TextBatch& batch);
  [[nodiscard]] bool encode_part(std::string_view text, const DocumentPart& part,
                                 std::string_view after, TextBatch& batch,
                                 std::vector<std::uint32_t>& ids);
  // Encodes a line into the batch without begin and end tokens; returns its problem, or "".
  [[nodiscard]] std::string encode_line(std::string_view line, TextBatch& batch);
  void encode_text(std::string_view text, std::vector<std::uint32_t>& ids);

  const EncodeOptions& options_;
  std::optional<TextEncoder> encoder_;
};

}  // namespace trireme
