// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/pack_tokens.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "data/pack/progress.h"
#include "data/pack/text/batch_cutter.h"
#include "data/pack/text/batch_encoder.h"
#include "data/pack/text/dialogue.h"
#include "data/pack/text/text_source.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t narrow_vocabulary = 65536;

std::vector<std::uint32_t> added_token(const Tokenizer* tokenizer, std::string_view option,
                                       const std::string& token, const PackTextOptions& options) {
  if (token.empty()) return {};
  const auto id = tokenizer->id_of(token);
  if (!id) fail(ExitCode::config, "{}: '{}' is not in {}", option, token, options.tokenizer);
  return {*id};
}

// Meta's template begins with its token, unless the user gives another.
std::vector<std::uint32_t> begin_of(const Tokenizer* tokenizer, const PackTextOptions& options) {
  const bool of_template =
      options.begin_token.empty() && options.chat_template == ChatTemplate::llama3;
  return added_token(
      tokenizer, of_template ? "--chat-template: name the token by --begin-token" : "--begin-token",
      of_template ? "<|begin_of_text|>" : options.begin_token, options);
}

// Moves returned batches to the spool.
class Collector {
 public:
  Collector(const EncodeOptions& options, SpooledTokens& to) : encoder_(options), to_(to) {}

  void take(TextBatch& batch) {
    std::span<const std::uint32_t> ids = batch.ids;
    std::span<const std::uint8_t> counted = batch.counted;
    std::string_view text = batch.text;
    for (std::size_t i = 0; i < batch.runs.size(); ++i) {
      const TokenRun& run = batch.runs[i];
      const bool open = batch.last_part_is_open && i + 1 == batch.runs.size();
      if (i == 0 && !open_text_.empty()) {
        join(batch, open);
      } else if (open) {
        open_text_ = text;
        begins_ = run.begins;
      } else {
        add(ids.first(run.tokens), run.begins, counted.first(std::min(counted.size(), run.tokens)));
      }
      ids = ids.subspan(run.tokens);
      counted = counted.subspan(std::min(counted.size(), run.tokens));
      if (!batch.parts.empty()) text.remove_prefix(batch.parts[i].bytes);
    }
    to_.replaced += batch.replaced;
    std::ranges::move(batch.bad_lines, std::back_inserter(to_.bad_lines));
  }

 private:
  void join(TextBatch& batch, bool was_open) {
    joined_.clear();
    if (encoder_.encode_joined(open_text_, begins_, batch, joined_)) {
      add(joined_, begins_);
      open_text_.clear();
      return;
    }
    TRIREME_EXPECTS(was_open || !batch.parts.front().ends, "a document's end is no cut");
    open_text_ += batch.text.substr(0, batch.parts.front().bytes);
  }
  void add(std::span<const std::uint32_t> ids, bool begins,
           std::span<const std::uint8_t> counted = {}) {
    begin_ |= begins;
    if (ids.empty()) return;
    if (std::exchange(begin_, false)) to_.spool->begin_document();
    to_.spool->add(ids, counted);
  }

  BatchEncoder encoder_;
  SpooledTokens& to_;
  std::string open_text_;  // of a document whose tokens depend on the following text
  bool begins_ = true;
  bool begin_ = true;  // the next token begins a document
  std::vector<std::uint32_t> joined_;
};

void read_all(const std::vector<TextPart>& parts, const PackTextOptions& options,
              const Tokenizer* tokenizer, const GiveBatch& give) {
  std::uint64_t total = 0;
  for (const TextPart& part : parts)
    total += part.bytes;
  Progress progress(tokenizer != nullptr ? "tokenizing" : "reading", total, "bytes",
                    options.progress);
  const auto feed = [&](auto& cutter) {
    for (const TextPart& part : parts) {
      cutter.begin_file(&part.name);
      read_text_part(
          part, [&](std::uint64_t bytes) { progress.add(bytes); },
          [&](std::span<const std::byte> bytes) { cutter.add(bytes); });
      cutter.end_file();
    }
  };
  if (options.reads_lines()) {
    LineCutter cutter(give);
    feed(cutter);
  } else {
    DocumentCutter cutter(tokenizer, options.separator, give);
    feed(cutter);
    cutter.finish();
  }
}

}  // namespace

DType token_dtype(std::uint64_t vocabulary, std::optional<DType> wanted) {
  const DType least = vocabulary <= narrow_vocabulary ? DType::u16 : DType::u32;
  if (wanted == DType::u16 && least == DType::u32)
    fail(ExitCode::config, "--dtype: uint16 cannot hold a vocabulary of {}; use uint32",
         vocabulary);
  return wanted.value_or(least);
}

SpooledTokens spool_tokens(const std::vector<TextPart>& parts, const PackTextOptions& options,
                           const std::string& directory) {
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer.emplace(options.tokenizer);
  const Tokenizer* const reads = tokenizer ? &*tokenizer : nullptr;
  SpooledTokens result;
  if (reads != nullptr) {
    result.tokenizer = reads->name();
    result.vocabulary = reads->vocabulary();
  }
  result.dtype = token_dtype(result.vocabulary, options.dtype);
  const bool dialogues = options.pairs || options.chat_template != ChatTemplate::none;
  result.spool = std::make_unique<TokenSpool>(directory, result.dtype, dialogues);
  const Dialogue dialogue(reads, options.chat_template, options.tokenizer);
  const EncodeOptions encode{.tokenizer = reads,
                             .begin = begin_of(reads, options),
                             .end = added_token(reads, "--end-token", options.end_token, options),
                             .json_field = options.json_field,
                             .dialogue = dialogues ? &dialogue : nullptr,
                             .skip_bad = options.skip_bad,
                             .refuse_invalid = options.refuse_invalid};
  const std::size_t threads = options.threads > 0
                                  ? options.threads
                                  : std::max<std::size_t>(1, std::thread::hardware_concurrency());
  std::vector<BatchEncoder> encoders;
  encoders.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i)
    encoders.emplace_back(encode);
  Collector collector(encode, result);
  BatchPool pool(threads,
                 [&](TextBatch& batch, std::size_t thread) { encoders[thread].encode(batch); });
  read_all(parts, options, reads, [&](std::unique_ptr<TextBatch> batch) {
    if (pool.is_full()) collector.take(*pool.take());
    pool.put(std::move(batch));
  });
  while (const auto batch = pool.take())
    collector.take(*batch);
  if (result.spool->tokens() == 0)
    fail(ExitCode::data, "{}: no text found; every document is empty",
         fmt::format("{}", fmt::join(options.inputs, ", ")));
  return result;
}

}  // namespace trireme
