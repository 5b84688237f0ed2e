// SPDX-License-Identifier: Apache-2.0
// Private to the kernels of CPU and CUDA.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/norm/packed_norm.h"

namespace trireme::ops {

// Channels with one statistic. Part 0 is the queries, part 1 the keys.
struct PackedRun {
  int part;
  std::int64_t index;  // in (rows, runs)
  std::int64_t at;     // its first element in x
  std::int64_t length;
};

// x as (rows, width): runs of queries, of keys and, as many as of keys, of values.
// An index that is not known when compiling would move arrays out of a GPU's registers.
struct PackedRows {
  std::int64_t rows, width;
  std::int64_t queries, keys;             // runs of each
  std::int64_t query_length, key_length;  // channels of one
  float query_share, key_share;           // 1 / its channels in all blocks
  float epsilon;

  PackedRows(const Tensor& x, const PackedNormOptions& options)
      : rows(x.shape[0] * x.shape[1]),
        width(x.shape[2]),
        queries(options.whole ? 1 : options.heads),
        keys(options.whole ? 1 : options.kv_heads),
        query_length(width / (options.heads + 2 * options.kv_heads) * (options.heads / queries)),
        key_length(width / (options.heads + 2 * options.kv_heads) * (options.kv_heads / keys)),
        query_share(1.0F / static_cast<float>(query_length * options.blocks)),
        key_share(1.0F / static_cast<float>(key_length * options.blocks)),
        epsilon(options.epsilon) {}

  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t normed() const { return queries + keys; }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t length(int part) const {
    return part == 0 ? query_length : key_length;
  }
  // From `normed()` on: values.
  [[nodiscard]] TRIREME_HOST_DEVICE PackedRun run(std::int64_t row, std::int64_t i) const {
    const std::int64_t index = row * normed() + i;
    if (i < queries) return {0, index, row * width + i * query_length, query_length};
    return {1, index, row * width + queries * query_length + (i - queries) * key_length,
            key_length};
  }
  [[nodiscard]] TRIREME_HOST_DEVICE float mean(float sum, int part) const {
    return sum * (part == 0 ? query_share : key_share);
  }
  [[nodiscard]] TRIREME_HOST_DEVICE float inverse(float squares, int part) const {
    return 1.0F / sqrtf(mean(squares, part) + epsilon);
  }
};

// The scale of each part, or its gradient.
template <typename Float>
struct PackedParts {
  Float *queries, *keys;

  explicit PackedParts(const PackedScales& scales)
      : queries(scales.queries.as<float>()), keys(scales.keys.as<float>()) {}
  [[nodiscard]] TRIREME_HOST_DEVICE Float* at(int part) const { return part == 0 ? queries : keys; }
};

}  // namespace trireme::ops
