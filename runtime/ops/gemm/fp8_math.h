// SPDX-License-Identifier: Apache-2.0
// The scale of an 8-bit tensor, shared by all back ends.
#pragma once

#include "runtime/ops/common/magnitude.h"

namespace trireme::ops {

struct Fp8Scale {
  float scale;    // x ~ code * scale
  float inverse;  // code = nearest(x * inverse)

  // magnitude: the largest magnitude_of; `largest`: the format's maximum.
  TRIREME_HOST_DEVICE Fp8Scale(std::uint32_t magnitude, float largest) {
    const auto amax = std::bit_cast<float>(magnitude);
    if (magnitude >= 0x7f800000U) {  // zero codes times this make all products NaN
      scale = amax;
      inverse = 0.0F;
      return;
    }
    // Rounds up to a power of two, limited to those with an inverse.
    const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(amax / largest) + 0x7fffffU) >> 23;
    scale = std::bit_cast<float>((exponent < 1U ? 1U : exponent) << 23);
    inverse = inverse_of(scale);
  }
  // From an earlier scale.
  TRIREME_HOST_DEVICE explicit Fp8Scale(float found)
      : scale(found), inverse(magnitude_of(found) >= 0x7f800000U ? 0.0F : inverse_of(found)) {}

 private:
  // Inverse of a power of two.
  TRIREME_HOST_DEVICE static float inverse_of(float power) {
    return std::bit_cast<float>((254U << 23) - std::bit_cast<std::uint32_t>(power));
  }
};

}  // namespace trireme::ops
