// SPDX-License-Identifier: Apache-2.0
// GELU's tanh form as a logistic: 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), u = k (x + 0.044715 x^3),
// which keeps its relative precision where the tanh comes close to -1. Private to this room.
#pragma once

#include "runtime/ops/vector_math.h"

namespace trireme::ops {

inline constexpr float gelu_two_k = 1.5957691216F;  // 2 sqrt(2 / pi)
inline constexpr float gelu_cubic = 0.044715F;

[[gnu::always_inline]] inline float gelu(float x) {
  const float two_u = gelu_two_k * x * (1.0F + gelu_cubic * x * x);
  return x * fast_sigmoid(two_u);
}

// d gelu / dx.
[[gnu::always_inline]] inline float gelu_slope(float x) {
  // Beyond 20 the slope is 0 or 1 to the last bit; the limit keeps products finite.
  const float limited = detail::limit(x, -20.0F, 20.0F);
  const float square = limited * limited;
  const float two_u = gelu_two_k * limited * (1.0F + gelu_cubic * square);
  const float two_u_slope = gelu_two_k * (1.0F + 3.0F * gelu_cubic * square);
  const float e = fast_exp(-two_u);
  const float s = 1.0F / (1.0F + e);
  return s + limited * two_u_slope * (s * (e * s));
}

}  // namespace trireme::ops
