// SPDX-License-Identifier: Apache-2.0
// Sums float data in double in one fixed order, whatever the vector width: element i of a chunk
// goes to partial sum i mod 16, the partial sums are added pairwise, the chunks in order. Both
// terms (x and x^2) are exact in double, so the bits depend only on the data.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::ops {

inline constexpr std::int64_t sum_chunk = 4096;
inline constexpr std::int64_t sum_lanes = 16;

template <bool squares>
double sum_of_chunk(const float* x, std::int64_t count) {
  constexpr std::int64_t lanes = sum_lanes;
  double partial[lanes] = {};
  const std::int64_t whole = count / lanes * lanes;
  for (std::int64_t i = 0; i < whole; i += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<double>(x[i + lane]);
      partial[lane] += squares ? value * value : value;
    }
  }
  for (std::int64_t i = whole; i < count; ++i) {
    const auto value = static_cast<double>(x[i]);
    partial[i - whole] += squares ? value * value : value;
  }
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane)
      partial[lane] += partial[lane + half];
  }
  return partial[0];
}

template <bool squares>
double fixed_sum(const float* x, std::int64_t count) {
  double total = 0.0;
  for (std::int64_t first = 0; first < count; first += sum_chunk) {
    total += sum_of_chunk<squares>(x + first, std::min(sum_chunk, count - first));
  }
  return total;
}

}  // namespace trireme::ops
