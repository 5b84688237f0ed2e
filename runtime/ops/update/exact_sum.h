// SPDX-License-Identifier: Apache-2.0
// Exact sums of squares in integers: neither the order of the values nor their split over calls,
// buckets or ranks changes a bit of the result. For gradient norms that are equal in every layout.
//
// The state is a fixed-point number whose lowest bit is 2^-298, the square of the smallest
// subnormal: exact_sum_limbs limbs of 32 bits, lowest first, each in its own u64, then the counts
// of infinities and of NaNs. All zero is the empty sum. Element-wise integer sums of up to 2^31
// states (an all_reduce) are states too.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// 2^63 squares of the largest float need 298 + 256 + 63 bits.
inline constexpr std::int64_t exact_sum_limbs = 20;
inline constexpr std::int64_t exact_sum_words = exact_sum_limbs + 2;

// state(exact_sum_words) u64 += squares of x (f32, any shape, may be empty). Afterwards every limb
// is below 2^32, so equal sums have equal bits.
void accumulate_squares_exact(Stream& stream, const Tensor& state, const Tensor& x);

// totals(n) f64 = the sums of states(n, exact_sum_words), each rounded once to nearest; NaN if
// there was a NaN, else infinity if there was an infinity.
void exact_sum_values(Stream& stream, const Tensor& totals, const Tensor& states);

}  // namespace trireme::ops
