// SPDX-License-Identifier: Apache-2.0
// Packs text into token shards, by a tokenizer or one token per byte of any kind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/shard/shard.h"
#include "runtime/base/dtype.h"

namespace trireme {

// How a conversation becomes text:
//   chatml  <|im_start|>ROLE\nCONTENT<|im_end|>\n
//   llama3  <|start_header_id|>ROLE<|end_header_id|>\n\nCONTENT<|eot_id|>, CONTENT without
//           surrounding white space, after one <|begin_of_text|> (or the given begin token), as in
//           Meta's template
//   rendered  lines have token ids already (scripts/pack_chats.py)
enum class ChatTemplate : std::uint8_t { none, chatml, llama3, rendered };

struct PackTextOptions {
  std::vector<std::string> inputs{};  // files, directories, "-"
  std::string output{};
  std::string split{};  // empty, or the subdirectory of `output` to write
  // The last part of the stream goes to output/validation, the rest to output/train; 0: all to
  // output/train.
  std::optional<double> validation{};
  std::string separator{};  // ends a document, like the end of a file; stays in the text
  std::uint64_t shard_tokens = std::uint64_t{1} << 28;
  std::optional<DType> dtype{};  // u16 or u32; default: the narrowest that holds the vocabulary
  bool force = false;
  bool progress = false;

  std::string tokenizer{};    // a tokenizer.json; empty: tokens are bytes
  std::string begin_token{};  // added to each document
  std::string end_token{};
  bool refuse_invalid = false;  // UTF-8, which is otherwise replaced by U+FFFD; with a tokenizer
  std::string json_field{};     // for inputs that are JSON lines, each a document
  // Inputs are JSON lines, each a prompt with its completion, or a conversation in such a template;
  // prompts and all roles but the assistant are no targets (dialogue.h).
  bool pairs = false;
  ChatTemplate chat_template = ChatTemplate::none;
  // Inputs are JSON lines, each a text with such targets (text/labelled_text.h).
  TextTargets targets = TextTargets::none;
  std::uint64_t longest = 0;  // then: tokens of a text, the frame's included; longer ones are cut
  std::string classes_of{};   // and a packed data set that numbers the classes; empty: these texts
  bool skip_bad = false;      // skip invalid lines
  std::size_t threads = 0;    // for tokenization; 0: one per core

  [[nodiscard]] bool reads_lines() const {
    return !json_field.empty() || pairs || chat_template != ChatTemplate::none ||
           targets != TextTargets::none;
  }
};

struct PackedSplit {
  std::string path;
  std::uint64_t samples = 0;  // tokens or images
  std::uint64_t documents = 0;
  std::uint64_t shards = 0;
  std::optional<std::uint64_t> counted{};  // number of target tokens; nothing: all
};

struct PackedText {
  std::vector<PackedSplit> splits{};
  std::uint64_t replaced = 0;          // invalid UTF-8 that became U+FFFD
  std::uint64_t cut = 0;               // texts with targets that were too long
  std::vector<std::string> skipped{};  // messages, one per skipped line
};

// Raises ExitCode::config for options that cannot be honoured, ExitCode::data for bad input,
// ExitCode::internal for a full disk. The output is then unchanged.
[[nodiscard]] PackedText pack_text(const PackTextOptions& options);

// Converts "\n", "\t", "\0", "\\" and "\xNN" to their bytes. Raises ExitCode::config for any other
// escape.
[[nodiscard]] std::string unescape(const std::string& text);

}  // namespace trireme
