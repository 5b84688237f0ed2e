// SPDX-License-Identifier: Apache-2.0
// Private to the kernels of CPU and CUDA.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/norm/projection_norm.h"

namespace trireme::ops {

// x as (rows, width): queries, keys, values; part 0 is the queries, part 1 the keys.
struct ProjectionRows {
  std::int64_t rows, size, width;
  std::int64_t parts[2];  // channels of each
  float shares[2];        // 1 / their channels in all blocks
  float epsilon;

  ProjectionRows(const Tensor& x, const ProjectionNormOptions& options)
      : rows(x.shape[0] * x.shape[1]),
        size(x.shape[2] / (options.heads + 2 * options.kv_heads)),
        width(x.shape[2]),
        parts{options.heads * size, options.kv_heads * size},
        shares{1.0F / static_cast<float>(parts[0] * options.blocks),
               1.0F / static_cast<float>(parts[1] * options.blocks)},
        epsilon(options.epsilon) {}

  // An index that is not known when compiling would move the arrays out of a GPU's registers.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t channels(int part) const {
    return part == 0 ? parts[0] : parts[1];
  }
  [[nodiscard]] TRIREME_HOST_DEVICE float over(int part) const {
    return part == 0 ? shares[0] : shares[1];
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t at(std::int64_t row, int part) const {
    return row * width + (part == 0 ? 0 : parts[0]);
  }
  [[nodiscard]] TRIREME_HOST_DEVICE float inverse(const float* squares, std::int64_t row,
                                                  int part) const {
    return 1.0F / sqrtf(squares[2 * row + part] * over(part) + epsilon);
  }
};

// The scale of each part.
struct PartScales {
  const float* of[2];
  explicit PartScales(const ProjectionScales& scales)
      : of{scales.queries.as<float>(), scales.keys.as<float>()} {}
  [[nodiscard]] TRIREME_HOST_DEVICE const float* at(int part) const {
    return part == 0 ? of[0] : of[1];
  }
};

}  // namespace trireme::ops
