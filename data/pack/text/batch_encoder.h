// SPDX-License-Identifier: Apache-2.0
// Encodes batches of text to tokens.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
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

// Threads that process batches of text; batches return in the order in which they were put.
class BatchPool {
 public:
  // Thread number `thread` makes one call at a time.
  using Work = std::function<void(TextBatch&, std::size_t thread)>;

  BatchPool(std::size_t threads, Work work);
  ~BatchPool();  // drops batches that have not begun
  BatchPool(const BatchPool&) = delete;
  BatchPool& operator=(const BatchPool&) = delete;

  void put(std::unique_ptr<TextBatch> batch);
  // Whether take() should precede the next put(), to bound memory.
  [[nodiscard]] bool is_full() const { return order_.size() >= most_; }
  // The oldest batch, once it is done; null: there is none. Raises its work's error.
  [[nodiscard]] std::unique_ptr<TextBatch> take();

 private:
  struct Entry {
    std::unique_ptr<TextBatch> batch;
    bool done = false;  // guarded by mutex_
  };
  void run(std::size_t thread);

  Work work_;
  std::size_t most_;
  std::deque<std::shared_ptr<Entry>> order_;  // used by the caller alone

  std::mutex mutex_;
  std::condition_variable given_, finished_;
  std::deque<std::shared_ptr<Entry>> waiting_;  // guarded by mutex_
  bool stopping_ = false;                       // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace trireme
