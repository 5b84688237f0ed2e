// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/chunk_cache.h"

namespace trireme {

DecodedChunk ChunkCache::get(const Key& key,
                             const std::function<std::vector<std::byte>()>& decode) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto [found, fresh] = entries_.try_emplace(key);
    if (fresh) break;
    if (found->second.chunk) {
      ages_.splice(ages_.begin(), ages_, found->second.age);
      return found->second.chunk;
    }
    settled_.wait(lock);
  }
  count(key);
  lock.unlock();
  DecodedChunk chunk;
  try {
    chunk = std::make_shared<const std::vector<std::byte>>(decode());
  } catch (...) {
    lock.lock();
    entries_.erase(key);
    settled_.notify_all();
    throw;
  }
  lock.lock();
  keep(key, chunk);
  settled_.notify_all();
  return chunk;
}

void ChunkCache::keep(const Key& key, const DecodedChunk& chunk) {
  Entry& entry = entries_.at(key);
  ages_.push_front(key);
  entry = {chunk, ages_.begin()};
  bytes_ += chunk->size();
  // Also evicts the chunk just decoded if it alone exceeds the limit; its readers hold it.
  while (bytes_ > limit_ && !ages_.empty()) {
    const auto oldest = entries_.find(ages_.back());
    bytes_ -= oldest->second.chunk->size();
    entries_.erase(oldest);
    ages_.pop_back();
  }
}

void ChunkCache::count(const Key& key) {
  std::vector<bool>& once = once_[key.field];
  if (once.empty()) {
    once.resize(key.field->chunks.size());
    decoded_.bytes += key.field->chunk_bytes() * once.size();
  }
  ++decoded_.count;
  if (once[key.chunk]) ++decoded_.again;
  once[key.chunk] = true;
}

DecodedChunks ChunkCache::decoded() const {
  const std::lock_guard lock(mutex_);
  return decoded_;
}

}  // namespace trireme
