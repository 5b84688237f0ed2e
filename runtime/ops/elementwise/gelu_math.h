// SPDX-License-Identifier: Apache-2.0
// GELU's tanh form as a logistic: 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), u = k (x + 0.044715 x^3),
// which keeps its relative precision where the tanh comes close to -1. Private to this room.
//
// V is one value or a vector of them; Math brings exp, minimum and maximum for it, the latter two
// returning their second argument where that is NaN.
#pragma once

#include "runtime/base/host_device.h"

namespace trireme::ops {

template <typename Math, typename V = typename Math::Value>
struct Gelu {
  static constexpr float two_k = 1.5957691216F;  // 2 sqrt(2 / pi)
  static constexpr float cubic = 0.044715F;

  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V value(V x) {
    const V two_u = two_k * x * (1.0F + cubic * x * x);
    return x / (1.0F + Math::exp(-two_u));
  }

  // Its derivative. Beyond 20 that is 0 or 1 to the last bit; the limit keeps products finite.
  [[gnu::always_inline]] TRIREME_HOST_DEVICE static V slope(V x) {
    const V limited = Math::maximum(-20.0F, Math::minimum(20.0F, x));
    const V square = limited * limited;
    const V two_u = two_k * limited * (1.0F + cubic * square);
    const V two_u_slope = two_k * (1.0F + 3.0F * cubic * square);
    const V e = Math::exp(-two_u);
    const V s = 1.0F / (1.0F + e);
    return s + limited * two_u_slope * (s * (e * s));
  }
};

}  // namespace trireme::ops
