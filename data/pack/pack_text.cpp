// SPDX-License-Identifier: Apache-2.0
#include "data/pack/pack_text.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "data/pack/progress.h"
#include "data/pack/staged_directory.h"
#include "data/pack/text/labelled_text.h"
#include "data/pack/text/pack_tokens.h"
#include "data/pack/text/text_source.h"
#include "data/pack/text/token_stream.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Sends the stream to the training split until it is full, then to the validation split.
class SplitStreams {
 public:
  explicit SplitStreams(std::size_t token_bytes) : token_bytes_(token_bytes) {}
  void add_split(TokenStream stream) { streams_.push_back(std::move(stream)); }
  void begin_document() { at_document_start_ = true; }
  // `counted`: a byte for each token of a stream with a loss mask.
  void add(std::span<const std::byte> tokens, std::span<const std::byte> counted) {
    while (!tokens.empty()) {
      while (streams_[current_].left() == 0)
        ++current_;
      TokenStream& stream = streams_[current_];
      if (std::exchange(at_document_start_, false)) stream.begin_document();
      const auto part =
          tokens.first(std::min<std::uint64_t>(tokens.size(), stream.left() * token_bytes_));
      const auto marks = counted.first(std::min(counted.size(), part.size() / token_bytes_));
      stream.add(part, marks);
      tokens = tokens.subspan(part.size());
      counted = counted.subspan(marks.size());
    }
  }
  [[nodiscard]] std::vector<TokenStream>& streams() { return streams_; }

 private:
  std::size_t token_bytes_;
  std::vector<TokenStream> streams_;
  std::size_t current_ = 0;
  bool at_document_start_ = true;
};

void check_options(const PackTextOptions& options) {
  if (options.shard_tokens == 0)
    fail(ExitCode::config, "--shard-tokens: 0 is not allowed; use 1 or more");
  if (options.dtype && options.dtype != DType::u16 && options.dtype != DType::u32) {
    fail(ExitCode::config, "--dtype: {} is not allowed; use uint16 or uint32",
         name_of(*options.dtype));
  }
  const bool tokenizes = !options.tokenizer.empty(), lines = options.reads_lines();
  const bool chat = options.chat_template != ChatTemplate::none;
  const bool labelled = options.targets != TextTargets::none;
  if (labelled && (options.pairs || chat))
    fail(ExitCode::config, "--targets excludes --pairs and --chat-template");
  if (labelled != (options.longest > 0))
    fail(ExitCode::config,
         "--targets and --longest belong together: texts with targets are cut to model.context");
  if (!options.classes_of.empty() && (!labelled || options.targets == TextTargets::values))
    fail(ExitCode::config,
         "--classes-of: numbers the classes and labels of texts, so it needs "
         "--targets class, labels or token_classes");
  if (int{!options.json_field.empty()} + int{options.pairs} + int{chat} > 1)
    fail(ExitCode::config,
         "--json-field, --pairs and --chat-template exclude each other: each defines what a line "
         "is");
  if (lines && !options.separator.empty())
    fail(ExitCode::config,
         "--document-separator excludes --json-field, --pairs and --chat-template; each line is a "
         "document");
  if (chat && !tokenizes)
    fail(ExitCode::config, "--chat-template: bytes have no special tokens; it needs --tokenizer");
  for (const auto& [option, token] : {std::pair("--begin-token", options.begin_token),
                                      std::pair("--end-token", options.end_token)}) {
    if (!token.empty() && !tokenizes)
      fail(ExitCode::config, "{}: '{}' needs --tokenizer; bytes have no such token", option, token);
  }
  if (options.skip_bad && !lines)
    fail(ExitCode::config,
         "--skip-bad: leaves out bad JSON lines, so it needs --json-field, --pairs or "
         "--chat-template");
  if (options.refuse_invalid && !tokenizes)
    fail(ExitCode::config, "--invalid-utf8: has no effect on bytes; it needs --tokenizer");
  check_output_options(options.output, options.split, options.validation);
  for (const std::string& input : options.inputs) {
    if (input != "-") check_output_outside(options.output, input);
  }
}

PackedText pack_parts(const std::vector<TextPart>& parts, const PackTextOptions& options,
                      const std::string& target, StagedDirectory& stage) {
  SpooledTokens tokens = spool_tokens(parts, options, stage.path());
  PackedText packed{.replaced = tokens.replaced, .skipped = std::move(tokens.bad_lines)};
  SplitStreams streams(size_of(tokens.dtype));
  const std::string unit = options.tokenizer.empty() ? "bytes" : "tokens";
  const std::uint64_t total = tokens.spool->tokens();
  for (const auto& [name, size] : split_sizes(total, options.validation, unit)) {
    streams.add_split({name.empty() ? stage.path() : stage.add(name), size, options.shard_tokens,
                       tokens.dtype, tokens.tokenizer, tokens.vocabulary});
    packed.splits.push_back({name.empty() ? target : target + "/" + name, size, 0, 0, {}});
  }
  Progress progress("writing", total, unit, options.progress);
  tokens.spool->replay([&] { streams.begin_document(); },
                       [&](std::span<const std::byte> stored, std::span<const std::byte> counted) {
                         streams.add(stored, counted);
                         progress.add(stored.size() / size_of(tokens.dtype));
                       });
  for (std::size_t i = 0; i < packed.splits.size(); ++i) {
    TokenStream& stream = streams.streams()[i];
    stream.finish();
    packed.splits[i].documents = stream.documents();
    packed.splits[i].shards = stream.shards();
    if (options.pairs || options.chat_template != ChatTemplate::none)
      packed.splits[i].counted = stream.counted();
  }
  return packed;
}

}  // namespace

PackedText pack_text(const PackTextOptions& options) {
  check_options(options);
  const std::string target = output_of(options.output, options.split);
  StagedDirectory stage(target, options.force);
  const std::vector<TextPart> parts = list_text(options.inputs, stage.path());
  PackedText packed = options.targets != TextTargets::none
                          ? pack_labelled_text(parts, options, target, stage)
                          : pack_parts(parts, options, target, stage);
  stage.commit();
  return packed;
}

std::string unescape(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes.push_back(text[i]);
      continue;
    }
    const char kind = ++i < text.size() ? text[i] : '\0';
    constexpr std::string_view names = "nt0\\", values("\n\t\0\\", 4);
    if (const std::size_t at = names.find(kind); kind != '\0' && at != std::string_view::npos) {
      bytes.push_back(values[at]);
      continue;
    }
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    const bool hex = kind == 'x' && text.size() - i > 2 &&
                     std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    if (!hex) {
      fail(ExitCode::config,
           "--document-separator: '{}': a backslash starts \\n, \\t, \\0, \\\\ or \\xNN", text);
    }
    bytes.push_back(static_cast<char>(value));
    i += 2;
  }
  return bytes;
}

}  // namespace trireme
