// SPDX-License-Identifier: Apache-2.0
// Private: SwiGLU, shared by every back end. V is one value or a vector of them; `e` is e^-gate,
// kept finite.
#pragma once

#include "runtime/base/host_device.h"

namespace trireme::ops {

template <typename V>
[[gnu::always_inline]] TRIREME_HOST_DEVICE inline V swiglu_value(V gate, V value, V e) {
  return gate / (1.0F + e) * value;
}

template <typename V>
struct SwigluGradient {
  V gate;
  V value;
};

// silu'(g) = s (1 + g (1 - s)) with s = 1 / (1 + e^-g) and 1 - s = e s.
template <typename V>
[[gnu::always_inline]] TRIREME_HOST_DEVICE inline SwigluGradient<V> swiglu_gradient(V dy, V gate,
                                                                                    V value, V e) {
  const V s = 1.0F / (1.0F + e);
  return {dy * value * (s + gate * s * (e * s)), dy * gate * s};
}

}  // namespace trireme::ops
