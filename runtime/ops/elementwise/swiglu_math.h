// SPDX-License-Identifier: Apache-2.0
// Private: one element of SwiGLU, shared by every back end. `e` is e^-gate, kept finite.
#pragma once

#include "runtime/base/host_device.h"

namespace trireme::ops {

[[gnu::always_inline]] TRIREME_HOST_DEVICE inline float swiglu_value(float gate, float value,
                                                                     float e) {
  return gate / (1.0F + e) * value;
}

struct SwigluGradient {
  float gate;
  float value;
};

// silu'(g) = s (1 + g (1 - s)) with s = 1 / (1 + e^-g) and 1 - s = e s.
[[gnu::always_inline]] TRIREME_HOST_DEVICE inline SwigluGradient swiglu_gradient(float dy,
                                                                                 float gate,
                                                                                 float value,
                                                                                 float e) {
  const float s = 1.0F / (1.0F + e);
  return {dy * value * (s + gate * s * (e * s)), dy * gate * s};
}

}  // namespace trireme::ops
