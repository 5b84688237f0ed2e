// SPDX-License-Identifier: Apache-2.0
// Threads that process batches of text; batches return in the order in which they were put.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/pack/text/text_batch.h"

namespace trireme {

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
