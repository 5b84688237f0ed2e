// SPDX-License-Identifier: Apache-2.0
// The fixed-point number of exact sums, shared by all back ends.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/base/host_device.h"
#include "runtime/ops/update/exact_sum.h"

namespace trireme::ops {

// The state as an accumulator. Trivial, so that it can be in shared memory.
struct ExactSum {
  // The lowest bit: the square of the smallest subnormal.
  static constexpr int lowest = -298;
  // Number of add() between two carry(): each adds less than 2^33.
  static constexpr std::int64_t adds_before_carry = std::int64_t{1} << 28;

  std::int64_t limbs[exact_sum_limbs];
  std::uint64_t infinities, nans;

  TRIREME_HOST_DEVICE void load(const std::uint64_t* state) {
    for (std::int64_t& limb : limbs)
      limb = 0;
    infinities = nans = 0;
    *this += state;
    carry();
  }
  // Word by word; after carry() the limbs have room for 2^30 other such sums.
  TRIREME_HOST_DEVICE void operator+=(const std::uint64_t* state) {
    for (int i = 0; i < exact_sum_limbs; ++i)
      limbs[i] += static_cast<std::int64_t>(state[i]);
    infinities += state[exact_sum_limbs];
    nans += state[exact_sum_limbs + 1];
  }
  // After carry().
  TRIREME_HOST_DEVICE void store(std::uint64_t* state) const {
    for (int i = 0; i < exact_sum_limbs; ++i)
      state[i] = static_cast<std::uint64_t>(limbs[i]);
    state[exact_sum_limbs] = infinities;
    state[exact_sum_limbs + 1] = nans;
  }

  // += count * 2^position for |count| <= 2^53 and position >= lowest.
  TRIREME_HOST_DEVICE void add(std::int64_t count, int position) {
    const int offset = position - lowest;
    const int shift = offset % 32;
    std::int64_t* const limb = limbs + offset / 32;
    const std::uint64_t low = (static_cast<std::uint64_t>(count) & mask) << shift;
    const std::int64_t high = (count >> 32) * (std::int64_t{1} << shift);
    limb[0] += static_cast<std::int64_t>(low & mask);
    limb[1] += static_cast<std::int64_t>(low >> 32) + (high & mask);
    limb[2] += high >> 32;
  }

  // Brings every limb into [0, 2^32): the canonical form.
  TRIREME_HOST_DEVICE void carry() {
    std::int64_t over = 0;
    for (std::int64_t& limb : limbs) {
      const std::int64_t whole = limb + over;
      limb = whole & mask;
      over = whole >> 32;
    }
  }

  // After carry(). Rounded to nearest, ties to even: the leading 64 bits, the last of which also
  // represents all lower ones, then the processor's conversion.
  [[nodiscard]] TRIREME_HOST_DEVICE double value() const {
    if (nans != 0) return std::numeric_limits<double>::quiet_NaN();
    if (infinities != 0) return std::numeric_limits<double>::infinity();
    int top = exact_sum_limbs - 1;
    while (top >= 0 && limbs[top] == 0)
      --top;
    if (top < 0) return 0.0;
    const int zeros = std::countl_zero(static_cast<std::uint32_t>(limbs[top]));
    const std::uint64_t third = limb_at(top - 2) << zeros;
    std::uint64_t leading = ((limb_at(top) << 32 | limb_at(top - 1)) << zeros) | (third >> 32);
    bool rest = (third & mask) != 0;
    for (int i = 0; i < top - 2; ++i)
      rest = rest || limbs[i] != 0;
    if (rest) leading |= 1U;
    return std::ldexp(static_cast<double>(leading), 32 * (top - 1) - zeros + lowest);
  }

 private:
  static constexpr std::int64_t mask = 0xffffffff;

  [[nodiscard]] TRIREME_HOST_DEVICE std::uint64_t limb_at(int index) const {
    return index < 0 ? 0 : static_cast<std::uint64_t>(limbs[index]);
  }
};

TRIREME_HOST_DEVICE inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// Exact floating-point addition (Demmel and Nguyen, "Fast reproducible floating-point summation",
// 2013): a square is exact in double. Adding and subtracting 1.5 * 2^52 u rounds it to a multiple
// of u; the multiples of a block fit a double, so their sum is exact in any order, and the
// remainders go to the next finer u. Each block chooses u by its largest value; its sum goes to the
// fixed-point number as an integer. One pass over a block fills two bins.
struct ExactBins {
  static constexpr std::int64_t block = 512;  // terms
  // Terms of a bin are at most 2^bits u, and their sum at most 2^53 u.
  static constexpr int bits = 44;
  static_assert(block << bits <= std::int64_t{1} << 53);
  // Passes until nothing can remain: 7 times two bins cover all possible squares.
  static constexpr int passes = 7;

  int first, second;  // the lowest bits of the bins
  double first_round, second_round;

  // No term reaches 2^top.
  TRIREME_HOST_DEVICE explicit ExactBins(int top)
      : first(not_below_lowest(top - bits)),
        second(not_below_lowest(top - 2 * bits)),
        first_round(1.5 * power_of_two(first + 52)),
        second_round(1.5 * power_of_two(second + 52)) {}

  // A term's parts in both bins, and the rest.
  struct Parts {
    double coarse, fine, rest;
  };
  TRIREME_HOST_DEVICE Parts split(double term) const {
    const double coarse = (term + first_round) - first_round;
    const double remainder = term - coarse;
    const double fine = (remainder + second_round) - second_round;
    return {coarse, fine, remainder - fine};
  }
  TRIREME_HOST_DEVICE void add(ExactSum& sum, double first_sum, double second_sum) const {
    sum.add(static_cast<std::int64_t>(first_sum * power_of_two(-first)), first);
    sum.add(static_cast<std::int64_t>(second_sum * power_of_two(-second)), second);
  }

  // `top` of the squares of floats whose largest magnitude has these bits.
  TRIREME_HOST_DEVICE static int top_of(std::uint32_t magnitude) {
    // |x| < 2^(exponent + 1), subnormals having the smallest exponent.
    const int exponent = std::max(static_cast<int>(magnitude >> 23), 1) - 127;
    return 2 * (exponent + 1);
  }

 private:
  TRIREME_HOST_DEVICE static int not_below_lowest(int position) {
    return position < ExactSum::lowest ? ExactSum::lowest : position;
  }
};

inline constexpr std::uint32_t infinity_bits = 0x7f800000U;

TRIREME_HOST_DEVICE inline std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}

}  // namespace trireme::ops
