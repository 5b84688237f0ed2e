// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/mxfp4.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t block_values = 32, block_bytes = 16;
constexpr std::uint8_t nan_scale = 255;
constexpr int scale_bias = 127;
// By sign, two bits of exponent, one of mantissa.
constexpr std::array<float, 16> values_of_code{0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                               -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

}  // namespace

Mxfp4Shapes mxfp4_shapes(const Shape& shape) {
  if (shape.rank() != 3 || shape[1] % block_values != 0) return {};
  const std::int64_t groups = shape[1] / block_values;
  return {{shape[0], shape[2], groups, block_bytes}, {shape[0], shape[2], groups}};
}

std::vector<float> decode_mxfp4(const std::string& name, std::span<const std::uint8_t> blocks,
                                std::span<const std::uint8_t> scales, const Shape& shape) {
  if (std::ranges::find(scales, nan_scale) != scales.end())
    fail(ExitCode::checkpoint, "{}: a scale is {}, which is NaN; the file is damaged", name,
         nan_scale);
  const std::int64_t columns = shape[1], rows = shape[2], groups = columns / block_values;
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  std::array<float, nan_scale> powers{};
  for (int scale = 0; scale < nan_scale; ++scale)
    powers[static_cast<std::size_t>(scale)] = std::ldexp(1.0F, scale - scale_bias);
  constexpr std::int64_t run = 16;  // rows, so that whole cache lines are written
  for (std::int64_t expert = 0; expert < shape[0]; ++expert) {
    for (std::int64_t first = 0; first < rows; first += run) {
      for (std::int64_t at = 0; at < groups * block_bytes; ++at) {
        float* const to = values.data() + (expert * columns + 2 * at) * rows;
        for (std::int64_t row = first; row < std::min(rows, first + run); ++row) {
          const auto group =
              static_cast<std::size_t>((expert * rows + row) * groups + at / block_bytes);
          const float scale = powers[scales[group]];
          const std::uint8_t both =
              blocks[group * block_bytes + static_cast<std::size_t>(at % block_bytes)];
          to[row] = values_of_code[both & 15U] * scale;
          to[rows + row] = values_of_code[both >> 4U] * scale;
        }
      }
    }
  }
  return values;
}

}  // namespace trireme
