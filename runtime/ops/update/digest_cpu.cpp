// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/update/digest.h"

namespace trireme::ops::cpu {
namespace {

std::uint64_t digest_of_neighbours(std::uint64_t base, const float* x, std::int64_t n) {
  std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i)
    sum += digest_term(base + static_cast<std::uint64_t>(i), std::bit_cast<std::uint32_t>(x[i]));
  return sum;
}

std::uint64_t digest_of_rows(const DigestPlaces& places, const float* x, std::int64_t n) {
  std::uint64_t sum = 0;
  std::int64_t row = places.first / places.width, column = places.first % places.width;
  for (std::int64_t done = 0; done < n; ++row, column = 0) {
    const std::int64_t count = std::min(places.width - column, n - done);
    const auto place = static_cast<std::uint64_t>(row * places.stride + column);
    sum += digest_of_neighbours(places.base + place, x + done, count);
    done += count;
  }
  return sum;
}

}  // namespace

void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x,
                       const DigestPlaces& places) {
  enqueue(stream,
          [to = digest.as<std::uint64_t>(), x = x.as<float>(), n = x.count(), places = places] {
            *to += places.width > 0 ? digest_of_rows(places, x, n)
                                    : digest_of_neighbours(places.base, x, n);
          });
}

}  // namespace trireme::ops::cpu
