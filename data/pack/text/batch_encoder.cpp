// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/batch_encoder.h"

#include <algorithm>
#include <utility>

#include "data/pack/progress.h"
#include "data/pack/text/dialogue.h"
#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

// Up to the last whole code point, because text after a cut may end anywhere.
std::string_view whole_code_points(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && (static_cast<unsigned char>(text[end - 1]) & 0xC0U) == 0x80)
    --end;
  return text.substr(0, end > 0 ? end - 1 : 0);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

BatchEncoder::BatchEncoder(const EncodeOptions& options) : options_(options) {
  if (options.tokenizer != nullptr) encoder_.emplace(*options.tokenizer);
}

void BatchEncoder::encode_text(std::string_view text, std::vector<std::uint32_t>& ids) {
  if (encoder_) return encoder_->encode(text, ids);
  for (const char byte : text)
    ids.push_back(static_cast<unsigned char>(byte));
}

bool BatchEncoder::encode_part(std::string_view text, const DocumentPart& part,
                               std::string_view after, TextBatch& batch,
                               std::vector<std::uint32_t>& ids) {
  std::string good, good_after;
  if (const std::size_t bad = encoder_ ? first_invalid_utf8(text) : std::string::npos;
      bad != std::string::npos) {
    if (options_.refuse_invalid)
      fail(ExitCode::data,
           "{}: byte {} is not UTF-8 (0x{:02x}); convert the file, or remove --invalid-utf8 refuse "
           "to get U+FFFD instead",
           *part.file, part.offset + bad, static_cast<unsigned char>(text[bad]));
    text = good = with_replaced_utf8(text, batch.replaced);
  }
  const std::size_t first = ids.size();
  if (part.begins) ids.insert(ids.end(), options_.begin.begin(), options_.begin.end());
  if (!encoder_) {
    encode_text(text, ids);
  } else if (part.ends) {
    encoder_->encode(text, ids, part.begins);
  } else {
    std::uint64_t elsewhere = 0;  // counted with its own text
    good_after = with_replaced_utf8(whole_code_points(after), elsewhere);
    if (!encoder_->encode_part(text, part.begins, good_after, ids)) {
      ids.resize(first);
      return false;
    }
  }
  if (part.ends) ids.insert(ids.end(), options_.end.begin(), options_.end.end());
  return true;
}

void BatchEncoder::encode(TextBatch& batch) {
  if (batch.lines_of != nullptr) return encode_lines(batch);
  std::string_view rest = batch.text;
  for (const DocumentPart& part : batch.parts) {
    stop_if_asked();
    const std::size_t before = batch.ids.size();
    batch.last_part_is_open =
        !encode_part(rest.substr(0, part.bytes), part, batch.after, batch, batch.ids);
    batch.runs.push_back({batch.ids.size() - before, part.begins});
    rest.remove_prefix(part.bytes);
  }
}

bool BatchEncoder::encode_joined(const std::string& open, bool begins, TextBatch& next,
                                 std::vector<std::uint32_t>& ids) {
  DocumentPart part = next.parts.front();
  const std::string text = open + next.text.substr(0, part.bytes);
  part.begins = begins;
  part.offset -= open.size();
  const std::uint64_t replaced = next.replaced;  // both parts are counted there
  const bool whole =
      encode_part(text, part, next.parts.size() == 1 ? next.after : std::string(), next, ids);
  next.replaced = replaced;
  return whole;
}

std::string BatchEncoder::encode_line(std::string_view line, TextBatch& batch) {
  const std::size_t before = batch.ids.size();
  batch.ids.insert(batch.ids.end(), options_.begin.begin(), options_.begin.end());
  std::string text, problem;
  if (options_.dialogue != nullptr) {
    batch.counted.resize(batch.ids.size(), 0);
    problem = options_.dialogue->encode(line, encoder_ ? &*encoder_ : nullptr, options_.end,
                                        {batch.ids, batch.counted});
  } else if (!read_json_line(line, options_.json_field, text)) {
    problem = std::move(text);
  } else {
    encode_text(text, batch.ids);
    batch.ids.insert(batch.ids.end(), options_.end.begin(), options_.end.end());
  }
  const bool empty = options_.dialogue == nullptr && text.empty();
  if (problem.empty() && !empty) {
    batch.runs.push_back({batch.ids.size() - before, true});
  } else {
    batch.ids.resize(before);
    batch.counted.resize(std::min(batch.counted.size(), before));
  }
  return problem;
}

void BatchEncoder::encode_lines(TextBatch& batch) {
  std::string_view rest = batch.text;
  for (std::uint64_t number = batch.first_line; !rest.empty(); ++number) {
    stop_if_asked();
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_blank(line)) continue;
    const std::string problem = encode_line(line, batch);
    if (problem.empty()) continue;
    if (!options_.skip_bad)
      fail(ExitCode::data, "{}:{}: {}; fix the line, or skip such lines with --skip-bad",
           *batch.lines_of, number, problem);
    batch.bad_lines.push_back(fmt::format("{}:{}: {}", *batch.lines_of, number, problem));
  }
}

BatchPool::BatchPool(std::size_t threads, Work work)
    : work_(std::move(work)), most_(2 * threads + 1) {
  for (std::size_t i = 0; i < threads; ++i)
    threads_.emplace_back([this, i] { run(i); });
}

BatchPool::~BatchPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  given_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

void BatchPool::run(std::size_t thread) {
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Entry> entry = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      work_(*entry->batch, thread);
    } catch (...) {
      entry->batch->error = std::current_exception();
    }
    lock.lock();
    entry->done = true;
    finished_.notify_one();
  }
}

void BatchPool::put(std::unique_ptr<TextBatch> batch) {
  order_.push_back(std::make_shared<Entry>(Entry{std::move(batch)}));
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(order_.back());
  }
  given_.notify_one();
}

std::unique_ptr<TextBatch> BatchPool::take() {
  if (order_.empty()) return nullptr;
  const std::shared_ptr<Entry> entry = std::move(order_.front());
  order_.pop_front();
  {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return entry->done; });
  }
  if (entry->batch->error) std::rethrow_exception(entry->batch->error);
  return std::move(entry->batch);
}

}  // namespace trireme
