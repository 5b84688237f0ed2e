// SPDX-License-Identifier: Apache-2.0
// Converts stored numbers to the (H, W, C) or (D, H, W, C) floats of a sample: ordered,
// transformed, scaled, checked. Private to
// this folder.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/fields/field_options.h"
#include "data/fields/sample_shape.h"

namespace trireme {

// Scales rows of (W, C) floats.
class RowScale {
 public:
  RowScale(const ChannelScale& scale, std::int64_t channels);
  // In place. Returns the number of values that were NaN or infinite before.
  [[nodiscard]] std::uint64_t apply(std::span<float> values) const;
  // The same, but sets these to 0.
  [[nodiscard]] std::uint64_t apply_and_clear(std::span<float> values) const;

 private:
  template <bool clear>
  std::uint64_t run(std::span<float> values) const;

  bool scales_ = false;
  // Repeated over many pixels to make loops long.
  std::vector<float> subtract_, multiply_;
};

// In place. Computed in double precision and rounded once, so that the C libraries of two machines
// hardly ever differ.
void transform(InputTransform kind, std::span<float> values);

// Copies the `pixels` (slices or 1, rows, columns) that `read` yields, dense and in the order of
// `places`, into the channels of `to` (pixels, channels).
void place_channels(const AxisPlaces& places, const ChannelRead& read,
                    const std::array<std::int64_t, 3>& pixels, std::int64_t channels,
                    const float* from, float* to);

}  // namespace trireme
