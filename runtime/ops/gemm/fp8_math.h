// SPDX-License-Identifier: Apache-2.0
// The scale of an 8-bit tensor, shared by every back end.
#pragma once

#include "runtime/ops/common/magnitude.h"

namespace trireme::ops {

struct Fp8Scale {
  float scale;    // x ~ code * scale
  float inverse;  // code = nearest(x * inverse)

  // magnitude: the largest magnitude_of; `largest`: of the format.
  TRIREME_HOST_DEVICE Fp8Scale(std::uint32_t magnitude, float largest) {
    const auto amax = std::bit_cast<float>(magnitude);
    if (magnitude >= 0x7f800000U) {  // codes of zero times this: every product is NaN
      scale = amax;
      inverse = 0.0F;
      return;
    }
    // The next power of two up, within what has an inverse.
    const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(amax / largest) + 0x7fffffU) >> 23;
    scale = std::bit_cast<float>((exponent < 1U ? 1U : exponent) << 23);
    inverse = inverse_of(scale);
  }
  // One that was found before.
  TRIREME_HOST_DEVICE explicit Fp8Scale(float found)
      : scale(found), inverse(magnitude_of(found) >= 0x7f800000U ? 0.0F : inverse_of(found)) {}

 private:
  // Of a power of two.
  TRIREME_HOST_DEVICE static float inverse_of(float power) {
    return std::bit_cast<float>((254U << 23) - std::bit_cast<std::uint32_t>(power));
  }
};

}  // namespace trireme::ops
