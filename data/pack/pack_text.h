// SPDX-License-Identifier: Apache-2.0
// Text to token shards, by a tokenizer or one token per byte, which may be any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace trireme {

// How a conversation becomes text:
//   chatml  <|im_start|>ROLE\nCONTENT<|im_end|>\n
//   llama3  <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>, CONTENT without white
//           space around it, behind one <|begin_of_text|> (or the begin token that is given), as
//           Meta's template has it
enum class ChatTemplate : std::uint8_t { none, chatml, llama3 };

struct PackTextOptions {
  std::vector<std::string> inputs{};  // files, directories, "-"
  std::string output{};
  std::string split{};  // empty, or the subdirectory of `output` to write
  // The last part of the stream goes to output/validation, the rest to output/train; 0: all to
  // output/train.
  std::optional<double> validation{};
  std::string
      separator{};  // ends a document, besides the end of each file; its bytes stay in the text
  std::uint64_t shard_tokens = std::uint64_t{1} << 28;
  std::optional<DType> dtype{};  // u16 or u32; default: the narrowest that holds the vocabulary
  bool force = false;
  bool progress = false;

  std::string tokenizer{};    // a tokenizer.json; empty: tokens are bytes
  std::string begin_token{};  // added to each document
  std::string end_token{};
  bool refuse_invalid = false;  // UTF-8, which becomes U+FFFD otherwise; with a tokenizer
  std::string json_field{};     // of inputs that are JSON lines, each a document
  // Inputs are JSON lines, each a prompt and its completion, or a conversation in such a template;
  // what the prompts and all roles but the assistant say does not count (dialogue.h).
  bool pairs = false;
  ChatTemplate chat_template = ChatTemplate::none;
  bool skip_bad = false;    // leave out lines that are not as they should be
  std::size_t threads = 0;  // that tokenize; 0: one per core

  [[nodiscard]] bool reads_lines() const {
    return !json_field.empty() || pairs || chat_template != ChatTemplate::none;
  }
};

struct PackedSplit {
  std::string path;
  std::uint64_t samples = 0;  // tokens or images
  std::uint64_t documents = 0;
  std::uint64_t shards = 0;
  std::optional<std::uint64_t> counted{};  // tokens that are targets; all
};

struct PackedText {
  std::vector<PackedSplit> splits{};
  std::uint64_t replaced = 0;          // invalid UTF-8 that became U+FFFD
  std::vector<std::string> skipped{};  // messages, one per line left out
};

// Raises ExitCode::config for options that cannot be honoured, ExitCode::data for bad input,
// ExitCode::internal for a full disk. In every case the output is as it was before.
[[nodiscard]] PackedText pack_text(const PackTextOptions& options);

// "\n", "\t", "\0", "\\" and "\xNN" become the bytes they stand for. Raises ExitCode::config for
// anything else after a backslash.
[[nodiscard]] std::string unescape(const std::string& text);

}  // namespace trireme
