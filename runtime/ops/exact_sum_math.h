// SPDX-License-Identifier: Apache-2.0
// The fixed-point number behind exact sums, shared by every back end.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/ops/exact_sum.h"

namespace trireme::ops {

class ExactSum {
 public:
  // The lowest bit: the square of the smallest subnormal.
  static constexpr int lowest = -298;
  // How many add() the limbs hold between two carry(): each adds less than 2^33.
  static constexpr std::int64_t adds_before_carry = std::int64_t{1} << 28;

  explicit ExactSum(const std::uint64_t* state)
      : infinities_(state[exact_sum_limbs]), nans_(state[exact_sum_limbs + 1]) {
    for (int i = 0; i < exact_sum_limbs; ++i)
      limbs_[i] = static_cast<std::int64_t>(state[i]);
    carry();
  }
  // After carry().
  void store(std::uint64_t* state) const {
    for (int i = 0; i < exact_sum_limbs; ++i)
      state[i] = static_cast<std::uint64_t>(limbs_[i]);
    state[exact_sum_limbs] = infinities_;
    state[exact_sum_limbs + 1] = nans_;
  }

  // += count * 2^position for |count| <= 2^53 and position >= lowest.
  void add(std::int64_t count, int position) {
    const int offset = position - lowest;
    const int shift = offset % 32;
    std::int64_t* const limb = limbs_ + offset / 32;
    const std::uint64_t low = (static_cast<std::uint64_t>(count) & mask) << shift;
    const std::int64_t high = (count >> 32) * (std::int64_t{1} << shift);
    limb[0] += static_cast<std::int64_t>(low & mask);
    limb[1] += static_cast<std::int64_t>(low >> 32) + (high & mask);
    limb[2] += high >> 32;
  }
  void add_not_finite(float value) { ++(std::isnan(value) ? nans_ : infinities_); }

  // Brings every limb into [0, 2^32): the one form of this sum.
  void carry() {
    std::int64_t over = 0;
    for (std::int64_t& limb : limbs_) {
      const std::int64_t whole = limb + over;
      limb = whole & mask;
      over = whole >> 32;
    }
  }

  // After carry(). Rounded to nearest, ties to even: the leading 64 bits, the last of which also
  // stands for all that follow, and then the processor's conversion.
  [[nodiscard]] double value() const {
    if (nans_ != 0) return std::nan("");
    if (infinities_ != 0) return HUGE_VAL;
    int top = exact_sum_limbs - 1;
    while (top >= 0 && limbs_[top] == 0)
      --top;
    if (top < 0) return 0.0;
    const int zeros = std::countl_zero(static_cast<std::uint32_t>(limbs_[top]));
    const std::uint64_t third = limb_at(top - 2) << zeros;
    std::uint64_t leading = ((limb_at(top) << 32 | limb_at(top - 1)) << zeros) | (third >> 32);
    const bool rest =
        (third & mask) != 0 || std::any_of(limbs_, limbs_ + std::max(top - 2, 0),
                                           [](std::int64_t limb) { return limb != 0; });
    if (rest) leading |= 1U;
    return std::ldexp(static_cast<double>(leading), 32 * (top - 1) - zeros + lowest);
  }

 private:
  static constexpr std::int64_t mask = 0xffffffff;

  [[nodiscard]] std::uint64_t limb_at(int index) const {
    return index < 0 ? 0 : static_cast<std::uint64_t>(limbs_[index]);
  }

  std::int64_t limbs_[exact_sum_limbs] = {};
  std::uint64_t infinities_ = 0;
  std::uint64_t nans_ = 0;
};

}  // namespace trireme::ops
