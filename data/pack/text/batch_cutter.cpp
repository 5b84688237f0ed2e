// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/batch_cutter.h"

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

DocumentCutter::DocumentCutter(const Tokenizer* tokenizer, std::string separator, GiveBatch give)
    : tokenizer_(tokenizer),
      search_(std::move(separator)),
      give_(std::move(give)),
      batch_(std::make_unique<TextBatch>()) {}

void DocumentCutter::begin_file(const std::string* file) {
  file_ = file;
  offset_ = 0;
  search_.reset();
}

void DocumentCutter::end_file() {
  end_document();
}

void DocumentCutter::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    bool ends = false;
    const std::size_t size = search_.next_end(bytes, ends);
    add_to_document(bytes.first(size));
    if (ends) end_document();
    bytes = bytes.subspan(size);
  }
}

void DocumentCutter::add_to_document(std::span<const std::byte> bytes) {
  batch_->text += text_of(bytes);
  document_ += bytes.size();
  offset_ += bytes.size();
  if (document_ >= std::max(batch_bytes, try_again_)) cut_document();
}

void DocumentCutter::end_document() {
  if (document_ > 0 || !begins_)
    batch_->parts.push_back({document_, file_, offset_ - document_, begins_, true});
  document_ = 0;
  begins_ = true;
  try_again_ = 0;
  if (batch_->text.size() >= batch_bytes) give_batch();
}

// The last cut with at least `ahead` bytes after it; 0: there is none. Bytes can be cut anywhere.
std::size_t DocumentCutter::last_cut(std::string_view document, std::size_t ahead) const {
  if (tokenizer_ == nullptr) return document.size();
  if (document.size() <= ahead) return 0;
  return tokenizer_->last_cut(document.substr(0, document.size() - ahead));
}

void DocumentCutter::cut_document() {
  const std::size_t start = batch_->text.size() - document_;
  const std::size_t ahead = tokenizer_ == nullptr ? 0 : tokenizer_->lookahead();
  const std::string_view whole = std::string_view(batch_->text).substr(start);
  const std::size_t cut = last_cut(whole, ahead);
  if (cut == 0) {
    if (document_ > longest_document)
      fail(ExitCode::data,
           "{}: this tokenizer cannot cut a document of more than {} bytes anywhere; divide it "
           "with --document-separator",
           *file_, longest_document);
    try_again_ = 2 * document_;
    return;
  }
  const std::string rest(whole.substr(cut));
  batch_->parts.push_back({cut, file_, offset_ - document_, begins_, false});
  batch_->text.resize(start + cut);
  give_batch(rest.substr(0, ahead));
  batch_->text = rest;
  document_ = rest.size();
  begins_ = false;
  try_again_ = 0;
}

void DocumentCutter::give_batch(std::string after) {
  batch_->after = std::move(after);
  give_(std::exchange(batch_, std::make_unique<TextBatch>()));
}

void DocumentCutter::finish() {
  if (!batch_->parts.empty()) give_batch();
}

void LineCutter::begin_file(const std::string* file) {
  file_ = file;
  line_ = 1;
}

void LineCutter::add(std::span<const std::byte> bytes) {
  if (const std::size_t end = text_of(bytes).rfind('\n'); end != std::string::npos)
    whole_lines_ = pending_.size() + end + 1;
  pending_ += text_of(bytes);
  if (pending_.size() < batch_bytes) return;
  if (whole_lines_ > 0) {
    give_lines(whole_lines_);
  } else if (pending_.size() > longest_document) {
    fail(ExitCode::data, "{}:{}: this line has more than {} bytes; are these JSON lines?", *file_,
         line_, longest_document);
  }
}

void LineCutter::end_file() {
  if (!pending_.empty()) give_lines(pending_.size());
}

void LineCutter::give_lines(std::size_t bytes) {
  auto batch = std::make_unique<TextBatch>();
  batch->lines_of = file_;
  batch->first_line = line_;
  std::string rest = pending_.substr(bytes);
  pending_.resize(bytes);
  batch->text = std::exchange(pending_, std::move(rest));
  whole_lines_ = 0;
  line_ += static_cast<std::uint64_t>(std::ranges::count(batch->text, '\n'));
  give_(std::move(batch));
}

SeparatorSearch::SeparatorSearch(std::string separator)
    : separator_(std::move(separator)), fallback_(separator_.size(), 0) {
  for (std::size_t i = 1, match = 0; i < separator_.size(); ++i) {
    while (match > 0 && separator_[i] != separator_[match])
      match = fallback_[match - 1];
    if (separator_[i] == separator_[match]) ++match;
    fallback_[i] = match;
  }
}

std::size_t SeparatorSearch::next_end(std::span<const std::byte> bytes, bool& found) {
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

}  // namespace trireme
