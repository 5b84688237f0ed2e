// SPDX-License-Identifier: Apache-2.0
// Cache of decoded chunks that several samples share: each is decoded once even if several threads
// request it, and the latest used stay within a byte limit.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "data/fields/storage/field_index.h"
#include "data/shard/read_times.h"

namespace trireme {

using DecodedChunk = std::shared_ptr<const std::vector<std::byte>>;

class ChunkCache {
 public:
  explicit ChunkCache(std::size_t limit_bytes) : limit_(limit_bytes) {}

  struct Key {
    const StoredField* field = nullptr;
    std::uint64_t chunk = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };

  // The chunk of `key`; calls `decode` if it is not cached. An error of `decode` reaches only its
  // caller; threads that waited try themselves. A single lock, held only for look-ups, because
  // decoding takes far longer.
  [[nodiscard]] DecodedChunk get(const Key& key,
                                 const std::function<std::vector<std::byte>()>& decode);
  [[nodiscard]] DecodedChunks decoded() const;  // counts calls of `decode`

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const {
      const auto address = reinterpret_cast<std::uintptr_t>(key.field);
      return std::hash<std::uint64_t>()((address ^ key.chunk * 0x9e3779b97f4a7c15U) *
                                        0xff51afd7ed558ccdU);
    }
  };
  struct Entry {
    DecodedChunk chunk;  // null while being decoded
    std::list<Key>::iterator age;
  };
  void count(const Key& key);
  void keep(const Key& key, const DecodedChunk& chunk);

  std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::unordered_map<Key, Entry, Hash> entries_;
  std::list<Key> ages_;  // decoded ones, latest used first
  std::size_t bytes_ = 0;
  DecodedChunks decoded_;
  std::unordered_map<const StoredField*, std::vector<bool>> once_;  // by chunk: has been decoded
};

}  // namespace trireme
