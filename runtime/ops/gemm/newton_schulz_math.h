// SPDX-License-Identifier: Apache-2.0
// Arithmetic of one element, shared by all back ends.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/gemm/newton_schulz.h"

namespace trireme::ops {

TRIREME_HOST_DEVICE inline float scale_of_trace(double trace) {
  return trace > 0.0 ? static_cast<float>(1.0 / std::sqrt(trace)) : 0.0F;
}

TRIREME_HOST_DEVICE inline float polynomial(float g, float g2, bool diagonal, float scale) {
  constexpr float a = 3.4445F, b = -4.7750F, c = 2.0315F;
  return scale * ((diagonal ? a : 0.0F) + (b * g + c * g2));
}

}  // namespace trireme::ops
