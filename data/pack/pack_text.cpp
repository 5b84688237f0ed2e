// SPDX-License-Identifier: Apache-2.0
#include "data/pack/pack_text.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "data/pack/output.h"
#include "data/pack/progress.h"
#include "data/pack/staged_directory.h"
#include "data/pack/text_source.h"
#include "data/pack/token_stream.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Finds the ends of separators in a stream that arrives in pieces (Knuth, Morris and Pratt).
class SeparatorSearch {
 public:
  explicit SeparatorSearch(std::string separator)
      : separator_(std::move(separator)), fallback_(separator_.size(), 0) {
    for (std::size_t i = 1, match = 0; i < separator_.size(); ++i) {
      while (match > 0 && separator_[i] != separator_[match])
        match = fallback_[match - 1];
      if (separator_[i] == separator_[match]) ++match;
      fallback_[i] = match;
    }
  }

  void reset() { matched_ = 0; }

  // Bytes up to and including the next separator's last one; all of them when none ends here.
  [[nodiscard]] std::size_t next_end(std::span<const std::byte> bytes, bool& found) {
    found = false;
    if (separator_.empty()) return bytes.size();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const char byte = static_cast<char>(bytes[i]);
      while (matched_ > 0 && byte != separator_[matched_])
        matched_ = fallback_[matched_ - 1];
      if (byte == separator_[matched_]) ++matched_;
      if (matched_ == separator_.size()) {
        matched_ = 0;
        found = true;
        return i + 1;
      }
    }
    return bytes.size();
  }

 private:
  std::string separator_;
  std::vector<std::size_t> fallback_;
  std::size_t matched_ = 0;
};

// Sends the stream to the training split until that is full, then to the validation split.
class SplitStreams {
 public:
  void add_split(const std::string& directory, std::uint64_t tokens,
                 const PackTextOptions& options) {
    streams_.emplace_back(directory, tokens, options.shard_tokens, options.dtype);
  }
  void begin_document() { at_document_start_ = true; }
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      while (streams_[current_].left() == 0)
        ++current_;
      TokenStream& stream = streams_[current_];
      if (std::exchange(at_document_start_, false)) stream.begin_document();
      const auto part = bytes.first(std::min<std::uint64_t>(bytes.size(), stream.left()));
      stream.add(part);
      bytes = bytes.subspan(part.size());
    }
  }
  [[nodiscard]] std::vector<TokenStream>& streams() { return streams_; }

 private:
  std::vector<TokenStream> streams_;
  std::size_t current_ = 0;
  bool at_document_start_ = true;
};

void check_options(const PackTextOptions& options) {
  if (options.shard_tokens == 0)
    fail(ExitCode::config, "--shard-tokens: 0 is not allowed; use 1 or more");
  if (options.dtype != DType::u16 && options.dtype != DType::u32) {
    fail(ExitCode::config, "--dtype: {} is not allowed; use uint16 or uint32",
         name_of(options.dtype));
  }
  check_output_options(options.output, options.split, options.validation);
  for (const std::string& input : options.inputs) {
    if (input != "-") check_output_outside(options.output, input);
  }
}

void stream_parts(const std::vector<TextPart>& parts, const PackTextOptions& options,
                  std::uint64_t total, SplitStreams& streams) {
  Progress progress("packing", total, "bytes", options.progress);
  SeparatorSearch search(options.separator);
  for (const TextPart& part : parts) {
    streams.begin_document();
    search.reset();
    read_part(part, [&](std::span<const std::byte> bytes) {
      progress.add(bytes.size());
      while (!bytes.empty()) {
        bool ends = false;
        const std::size_t size = search.next_end(bytes, ends);
        streams.add(bytes.first(size));
        if (ends) streams.begin_document();
        bytes = bytes.subspan(size);
      }
    });
  }
}

}  // namespace

std::vector<PackedSplit> pack_text(const PackTextOptions& options) {
  check_options(options);
  const std::string target = output_of(options.output, options.split);
  StagedDirectory stage(target, options.force);
  const std::vector<TextPart> parts = list_text(options.inputs, stage.path());
  std::uint64_t total = 0;
  for (const TextPart& part : parts)
    total += part.bytes;

  SplitStreams streams;
  std::vector<PackedSplit> packed;
  for (const auto& [name, size] : split_sizes(total, options.validation, "bytes")) {
    streams.add_split(name.empty() ? stage.path() : stage.add(name), size, options);
    packed.push_back({name.empty() ? target : target + "/" + name, size, 0, 0});
  }
  stream_parts(parts, options, total, streams);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    streams.streams()[i].finish();
    packed[i].documents = streams.streams()[i].documents();
    packed[i].shards = streams.streams()[i].shards();
  }
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
