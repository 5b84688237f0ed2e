// SPDX-License-Identifier: Apache-2.0
// The scales of 8-bit matrices, shared by all back ends.
#pragma once

#include "runtime/base/float8.h"
#include "runtime/ops/common/magnitude.h"
#include "runtime/ops/gemm/fp8.h"

namespace trireme::ops {

struct Fp8Scale {
  float scale;    // x ~ code * scale
  float inverse;  // code = nearest(x * inverse)

  // magnitude: the largest magnitude_of; `largest`: the format's maximum.
  TRIREME_HOST_DEVICE Fp8Scale(std::uint32_t magnitude, float largest) {
    const auto amax = std::bit_cast<float>(magnitude);
    if (magnitude >= 0x7f800000U) {  // zero codes times this make all products NaN
      scale = amax;
      inverse = 0.0F;
      return;
    }
    // Rounds up to a power of two, limited to those with an inverse.
    const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(amax / largest) + 0x7fffffU) >> 23;
    scale = std::bit_cast<float>((exponent < 1U ? 1U : exponent) << 23);
    inverse = inverse_of(scale);
  }
  // From an earlier scale.
  TRIREME_HOST_DEVICE explicit Fp8Scale(float found)
      : scale(found), inverse(magnitude_of(found) >= 0x7f800000U ? 0.0F : inverse_of(found)) {}

 private:
  // Inverse of a power of two.
  TRIREME_HOST_DEVICE static float inverse_of(float power) {
    return std::bit_cast<float>((254U << 23) - std::bit_cast<std::uint32_t>(power));
  }
};

// The blocks of a matrix (rows, columns) and the places of their scales (Fp8Scaling).
struct Fp8Blocks {
  static constexpr std::int64_t side = 128;  // whole blocks of every scaling fill a square
  Fp8Scaling scaling;
  std::int64_t rows, columns;

  // Extents of a block; not with Fp8Scaling::tensor.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t high() const {
    return scaling == Fp8Scaling::square_128 ? side : 1;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t wide() const {
    return scaling == Fp8Scaling::row_32 ? 32 : side;
  }
  // With padding.
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t scales() const {
    if (scaling == Fp8Scaling::tensor) return 1;
    if (scaling == Fp8Scaling::row_128) return rows * squares(columns);
    return squares(rows) * (scaling == Fp8Scaling::square_128 ? stride() : squares(columns) * tile);
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t place(std::int64_t row,
                                                       std::int64_t column) const {
    if (scaling == Fp8Scaling::tensor) return 0;
    if (scaling == Fp8Scaling::row_128) return column / side * rows + row;
    if (scaling == Fp8Scaling::square_128) return row / side * stride() + column / side;
    const std::int64_t r = row % side;
    return (row / side * squares(columns) + column / side) * tile + r % 32 * 16 + r / 32 * 4 +
           column % side / 32;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE float load(const std::byte* scales, std::int64_t row,
                                               std::int64_t column) const {
    const std::int64_t at = place(row, column);
    if (scaling != Fp8Scaling::row_32) return reinterpret_cast<const float*>(scales)[at];
    const auto exponent = static_cast<std::uint32_t>(scales[at]);
    return std::bit_cast<float>(exponent == 255U ? 0x7fc00000U : exponent << 23);
  }
  TRIREME_HOST_DEVICE void store(std::byte* scales, std::int64_t row, std::int64_t column,
                                 float scale) const {
    const std::int64_t at = place(row, column);
    if (scaling == Fp8Scaling::row_32) {
      scales[at] = static_cast<std::byte>(std::bit_cast<std::uint32_t>(scale) >> 23);
    } else {
      reinterpret_cast<float*>(scales)[at] = scale;
    }
  }

 private:
  static constexpr std::int64_t tile = 512;  // scales of a square in 1 x 32
  [[nodiscard]] TRIREME_HOST_DEVICE static std::int64_t squares(std::int64_t extent) {
    return (extent + side - 1) / side;
  }
  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t stride() const {
    return (squares(columns) + 3) / 4 * 4;
  }
};

// The output of quantising by blocks, straight or turned: small enough for kernels and tasks.
struct Fp8BlockCodes {
  f8e4m3* codes;  // null: not wanted
  std::byte* scales;
  Fp8Blocks blocks;

  Fp8BlockCodes(const Fp8Matrix& matrix, Fp8Scaling scaling, std::int64_t rows,
                std::int64_t columns)
      : codes(matrix.codes.empty() ? nullptr : matrix.codes.as<f8e4m3>()),
        scales(matrix.scale.data),
        blocks{scaling, rows, columns} {}
};

}  // namespace trireme::ops
