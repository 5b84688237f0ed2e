// SPDX-License-Identifier: Apache-2.0
// How floating point adds exactly (Demmel and Nguyen, "Fast reproducible floating-point summation",
// 2013): a square is exact in double. Adding and subtracting 1.5 * 2^52 u rounds it to a multiple
// of u; the multiples of a block fit a double, so their sum is exact in any order, and the
// remainders go to the next finer u. Each block chooses u by its largest value; what it sums goes
// to the fixed-point number as an integer.
#include "runtime/ops/exact_sum.h"

#include <algorithm>
#include <bit>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/exact_sum_math.h"

namespace trireme::ops::cpu {
namespace {

constexpr std::int64_t block = 512;
// Values of a bin are at most 2^bin_bits u, and their sum at most 2^53 u.
constexpr int bin_bits = 44;
static_assert(block << bin_bits <= std::int64_t{1} << 53);

constexpr std::uint32_t infinity_bits = 0x7f800000U;

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

double term(float x) {
  const auto wide = static_cast<double>(x);
  return wide * wide;
}
double term(double remainder) {
  return remainder;
}

// Takes the two bins below 2^top out of the terms of `from`, which are not larger; the remainders
// are `rest`, which may be `from`. Returns whether any is left.
template <typename T>
bool take_bins(ExactSum& sum, double* rest, const T* from, std::int64_t count, int top) {
  const int first = std::max(top - bin_bits, ExactSum::lowest);
  const int second = std::max(top - 2 * bin_bits, ExactSum::lowest);
  const double first_round = 1.5 * power_of_two(first + 52);
  const double second_round = 1.5 * power_of_two(second + 52);
  double first_sum = 0.0;
  double second_sum = 0.0;
  std::uint64_t left = 0;
#pragma omp simd reduction(+ : first_sum, second_sum) reduction(| : left)
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = term(from[i]);
    const double coarse = (value + first_round) - first_round;
    const double remainder = value - coarse;
    const double fine = (remainder + second_round) - second_round;
    const double after = remainder - fine;
    first_sum += coarse;
    second_sum += fine;
    left |= std::bit_cast<std::uint64_t>(after);
    rest[i] = after;
  }
  sum.add(static_cast<std::int64_t>(first_sum * power_of_two(-first)), first);
  sum.add(static_cast<std::int64_t>(second_sum * power_of_two(-second)), second);
  return left != 0;
}

std::uint32_t largest_magnitude(const float* x, std::int64_t count) {
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffU);
  return largest;
}

void add_block(ExactSum& sum, const float* x, std::int64_t count) {
  float finite[block];
  std::uint32_t largest = largest_magnitude(x, count);
  if (largest >= infinity_bits) [[unlikely]] {
    for (std::int64_t i = 0; i < count; ++i) {
      finite[i] = std::isfinite(x[i]) ? x[i] : 0.0F;
      if (!std::isfinite(x[i])) sum.add_not_finite(x[i]);
    }
    x = finite;
    largest = largest_magnitude(x, count);
  }
  if (largest == 0) return;
  double rest[block];
  // |x| < 2^(exponent + 1), subnormals having the smallest exponent.
  const int exponent = std::max(static_cast<int>(largest >> 23), 1) - 127;
  int top = 2 * (exponent + 1);
  bool left = take_bins(sum, rest, x, count, top);
  while (left) {
    top -= 2 * bin_bits;
    left = take_bins(sum, rest, rest, count, top);
  }
}

}  // namespace

void accumulate_squares_exact(Stream& stream, const Tensor& state, const Tensor& x) {
  enqueue(stream, [state = state.as<std::uint64_t>(), x = x.as<float>(), n = x.count()] {
    ExactSum sum(state);
    // A block makes 14 adds at most: 7 times two bins cover all squares there are.
    constexpr std::int64_t stretch = ExactSum::adds_before_carry / 16 * block;
    for (std::int64_t begin = 0; begin < n; begin += stretch) {
      const std::int64_t end = std::min(begin + stretch, n);
      for (std::int64_t first = begin; first < end; first += block)
        add_block(sum, x + first, std::min(block, end - first));
      sum.carry();
    }
    sum.store(state);
  });
}

void exact_sum_value(Stream& stream, const Tensor& total, const Tensor& state) {
  enqueue(stream, [total = total.as<double>(), state = state.as<std::uint64_t>()] {
    *total = ExactSum(state).value();
  });
}

}  // namespace trireme::ops::cpu
