// SPDX-License-Identifier: Apache-2.0
// Stored numbers to the (H, W, C) floats of a sample: put in order, scaled, looked at. Private to
// this folder.
#pragma once

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
  // In place. Returns how many values were NaN or infinite before.
  [[nodiscard]] std::uint64_t apply(std::span<float> values) const;
  // The same, but these are made 0.
  [[nodiscard]] std::uint64_t apply_and_clear(std::span<float> values) const;

 private:
  template <bool clear>
  std::uint64_t run(std::span<float> values) const;

  bool scales_ = false;
  // Repeated over many pixels, so that loops over them are long.
  std::vector<float> subtract_, multiply_;
};

// `rows` rows of what `read` gives, dense and in the order of `places`, into the channels of
// `to` (rows, width, channels).
void place_channels(const AxisPlaces& places, const ChannelRead& read, std::int64_t rows,
                    std::int64_t width, std::int64_t channels, const float* from, float* to);

}  // namespace trireme
