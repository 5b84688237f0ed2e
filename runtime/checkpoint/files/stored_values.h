// SPDX-License-Identifier: Apache-2.0
// Locates whole tensors in files and reads any part of them in any layout.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/checkpoint/files/manifest.h"

namespace trireme {

struct StoredSlice {
  int file = 0;              // index into StoredValues::files
  std::uint64_t offset = 0;  // byte of its first element
  std::int64_t block = 0, first = 0, count = 0;
};

struct StoredTensor {
  Shape shape{};
  Blocking blocking{};
  std::vector<StoredSlice> slices;
};

struct StoredValues {
  std::vector<std::string> files;  // paths
  std::map<std::string, StoredTensor, std::less<>> tensors;
};

[[nodiscard]] StoredValues stored_values(const std::string& path, const Manifest& manifest,
                                         ValueKind kind);

// Elements [first, first + count) of the part of a tensor that a rank stores: whole contiguous
// blocks from `first_block` on.
struct StoredRange {
  Blocking blocking{};
  std::int64_t block_count = 0;  // elements of a block
  std::int64_t first_block = 0;
  std::int64_t local_blocks = 1;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

class StoredReader {
 public:
  explicit StoredReader(const StoredValues& values) : values_(values) {}
  // Reads only the slices that overlap `range`.
  void read(const StoredTensor& tensor, const StoredRange& range, float* to);
  // The whole tensor, row-major.
  [[nodiscard]] std::vector<float> whole(const StoredTensor& tensor);
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_; }

 private:
  void read_elements(const StoredSlice& slice, std::int64_t first, std::int64_t count, float* to);
  void read_aligned(const StoredSlice& slice, const StoredRange& range, float* to);
  void read_scattered(const StoredTensor& tensor, const StoredSlice& slice,
                      const StoredRange& range, float* to);

  const StoredValues& values_;
  std::map<int, FileDescriptor> open_;
  std::vector<float> piece_;
  std::uint64_t bytes_ = 0;
};

[[nodiscard]] bool all_finite(std::span<const float> values);
// The first tensor, by name, that contains NaN or infinity; "" if there is none. Reads all values.
[[nodiscard]] std::string first_non_finite(const StoredValues& values);

}  // namespace trireme
