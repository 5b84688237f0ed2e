// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/batch_pool.h"

#include <utility>

namespace trireme {

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
