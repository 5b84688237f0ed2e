// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/block_sum.h"

#include <algorithm>

#include "runtime/base/sum_tree.h"
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"

namespace trireme::ops::cpu {
namespace {

// Elements summed at a time; the partial sums of all tree levels fit the first-level cache.
constexpr std::int64_t strip = 1024;

double load(double value) {
  return value;
}
void store(double& to, double value) {
  to = value;
}
using ops::load;
using ops::store;

// Accumulator: the type of the sums.
template <typename To, typename From, typename Accumulator>
struct BlockSum {
  To* y;
  const From* x;
  std::int64_t blocks;
  std::int64_t size;  // of a block
  std::int64_t doubled;

  // result = sum of blocks [first, first + number) at elements [begin, begin + count).
  void sum(std::int64_t first, std::int64_t number, std::int64_t begin, std::int64_t count,
           Accumulator* result) const {
    const From* const left = x + first * size + begin;
    if (number == 1) {
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i)
        result[i] = load(left[i]);
      return;
    }
    if (number == 2) {
      const From* const right = left + size;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i)
        result[i] = load(left[i]) + load(right[i]);
      return;
    }
    const auto half = static_cast<std::int64_t>(left_half(static_cast<std::size_t>(first),
                                                          static_cast<std::size_t>(number),
                                                          static_cast<std::size_t>(doubled)));
    Accumulator other[strip];
    sum(first, half, begin, count, result);
    sum(first + half, number - half, begin, count, other);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i)
      result[i] += other[i];
  }

  void operator()() const {
    Accumulator result[strip];
    for (std::int64_t begin = 0; begin < size; begin += strip) {
      const std::int64_t count = std::min(strip, size - begin);
      sum(0, blocks, begin, count, result);
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i)
        store(y[begin + i], result[i]);
    }
  }
};

}  // namespace

void sum_blocks(Stream& stream, const Tensor& y, const Tensor& x, std::int64_t doubled) {
  if (y.dtype == DType::f64) {
    enqueue(stream, BlockSum<double, double, double>{y.as<double>(), x.as<double>(), x.shape[0],
                                                     y.count(), doubled});
    return;
  }
  visit_compute_dtype(y.dtype, [&](auto to) {
    visit_compute_dtype(x.dtype, [&]<typename From>(From) {
      using To = decltype(to);
      enqueue(stream,
              BlockSum<To, From, float>{y.as<To>(), x.as<From>(), x.shape[0], y.count(), doubled});
    });
  });
}

}  // namespace trireme::ops::cpu
