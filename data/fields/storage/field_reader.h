// SPDX-License-Identifier: Apache-2.0
// Reads and decodes boxes of data sets on the calling thread, by pread, without the HDF5 library.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/fields/storage/chunk_cache.h"
#include "data/fields/storage/field_index.h"
#include "data/shard/open_files.h"
#include "runtime/base/error.h"

namespace trireme {

using Extents = std::array<std::uint64_t, most_axes>;

struct Box {
  Extents start{}, count{};
};

// A chunk that cannot be decoded.
class DamagedChunk : public Error {
 public:
  explicit DamagedChunk(const std::string& message) : Error(ExitCode::data, message) {}
};

class FieldReader {
 public:
  explicit FieldReader(std::size_t cache_bytes) : cache_(cache_bytes) {}

  // The elements of `box`, as stored, in C order. `owner` is the file index that contains `field`.
  // Thread-safe. Raises ExitCode::data naming file, data set and chunk.
  void read(const FileIndex& owner, const StoredField& field, const Box& box,
            std::span<std::byte> to) const;

  [[nodiscard]] const ChunkCache& cache() const { return cache_; }

 private:
  mutable OpenFiles files_;
  mutable ChunkCache cache_;
};

}  // namespace trireme
