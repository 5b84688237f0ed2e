// SPDX-License-Identifier: Apache-2.0
// Private: angles of rotary positions, shared by all back ends. In double: at position 100,000 a
// float angle would be off by 0.004.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "runtime/base/portable_math.h"
#include "runtime/ops/elementwise/rope.h"

namespace trireme::ops {

struct Rotation {
  float cosine, sine;
};

// Resolved options: pair i of a head rotates by base^(-i / pairs) per position, a share of which is
// divided by `factor`. The share is a ramp from `begin` to `end` over the pair's rotations in the
// original context, or over i.
struct RopeAngles {
  static constexpr double turns_per_radian = 0.15915494309189535;

  double log_base = 0, pairs = 1;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, begin = 0, end = 1, original_context = 0, magnitude = 1;
  friend bool operator==(const RopeAngles&, const RopeAngles&) = default;

  RopeAngles(const RopeOptions& options, std::int64_t pair_count)
      : log_base(std::log(options.base)),
        pairs(static_cast<double>(pair_count)),
        scaling(options.scaling),
        factor(options.factor),
        begin(options.low_freq_factor),
        end(options.high_freq_factor),
        original_context(static_cast<double>(options.original_context)) {
    if (scaling != RopeScaling::yarn) return;
    magnitude = 0.1 * std::log(factor) + 1.0;
    // The (fractional) index of the pair with `turns` rotations.
    const auto index = [&](double turns) {
      return pairs * std::log(original_context * turns_per_radian / turns) / log_base;
    };
    begin = index(options.high_freq_factor);
    end = index(options.low_freq_factor);
    if (options.whole_pairs) begin = std::floor(begin), end = std::ceil(end);
    begin = std::max(begin, 0.0);
    end = std::min(end, 2 * pairs - 1);
    if (begin == end) end += 0.001;  // as published
  }

  [[nodiscard]] TRIREME_HOST_DEVICE double frequency(std::int64_t i) const {
    const double plain = std::exp(-log_base * static_cast<double>(i) / pairs);
    double scaled = 0;  // the scaled share
    if (scaling == RopeScaling::linear) scaled = 1;
    if (scaling == RopeScaling::llama3)
      scaled = 1 - ramp(original_context * plain * turns_per_radian);
    if (scaling == RopeScaling::yarn) scaled = ramp(static_cast<double>(i));
    return plain * (1 - scaled) + plain / factor * scaled;
  }

  // For pair `i` at `position`.
  [[nodiscard]] TRIREME_HOST_DEVICE Rotation rotation(std::int64_t position, std::int64_t i) const {
    const double turns = static_cast<double>(position) * frequency(i) * turns_per_radian;
    const SineCosine direction = portable_sine_cosine(turns - std::floor(turns));
    return {static_cast<float>(direction.cosine * magnitude),
            static_cast<float>(direction.sine * magnitude)};
  }

 private:
  [[nodiscard]] TRIREME_HOST_DEVICE double ramp(double value) const {
    const double share = (value - begin) / (end - begin);
    return share < 0 ? 0 : share > 1 ? 1 : share;
  }
};

// (first, second) rotated by the angle; `second` is the element at D / 2 further. Explicit fma:
// compilers would fuse in some loops and not in others.
TRIREME_HOST_DEVICE inline float rotated_first(Rotation r, float first, float second) {
  return std::fma(first, r.cosine, -(second * r.sine));
}
TRIREME_HOST_DEVICE inline float rotated_second(Rotation r, float first, float second) {
  return std::fma(second, r.cosine, first * r.sine);
}

}  // namespace trireme::ops
