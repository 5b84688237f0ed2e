// SPDX-License-Identifier: Apache-2.0
// Private: the angles of rotary positions, shared by every back end. Turns are kept in double: at
// position 100,000 a float angle would be off by 0.004.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/ops/random/init_math.h"

namespace trireme::ops {

struct Rotation {
  float cosine, sine;
};

// Of pair `i` of `pairs` at `position`. log_base: ln of RopeOptions::base.
TRIREME_HOST_DEVICE inline Rotation rope_rotation(std::int64_t position, std::int64_t i,
                                                  std::int64_t pairs, double log_base) {
  constexpr double turns_per_radian = 0.15915494309189535;
  const double frequency =
      std::exp(-log_base * static_cast<double>(i) / static_cast<double>(pairs));
  const double turns = static_cast<double>(position) * frequency * turns_per_radian;
  const SineCosine direction = portable_sine_cosine(turns - std::floor(turns));
  return {static_cast<float>(direction.cosine), static_cast<float>(direction.sine)};
}

// (first, second) turned by the angle; `second` is what lies D / 2 further. Fused by hand:
// compilers would do so in some loops and not in others.
TRIREME_HOST_DEVICE inline float rotated_first(Rotation r, float first, float second) {
  return std::fma(first, r.cosine, -(second * r.sine));
}
TRIREME_HOST_DEVICE inline float rotated_second(Rotation r, float first, float second) {
  return std::fma(second, r.cosine, first * r.sine);
}

}  // namespace trireme::ops
