// SPDX-License-Identifier: Apache-2.0
// Options for images read in place, from the config's data section.
#pragma once

#include <cstdint>
#include <optional>

#include "data/images/resample.h"
#include "runtime/config/data_source.h"

namespace trireme {

// 8/7 of the short side, rounded: 256 for 224.
[[nodiscard]] constexpr std::int64_t centre_resize(std::int64_t side) {
  return (side * 8 + 3) / 7;
}

struct ImageOptions {
  // Without a crop the image is scaled until its short side is eval_resize long, and its centre is
  // taken; 0: 8/7 of the sample's short side, 256 for 224. (If height and width differ: until it
  // covers the sample, with the aspect ratio kept.)
  ImageFilesSource source{};
  std::int64_t height = 0, width = 0, channels = 3;  // of samples
  std::int64_t classes = 0;                          // of the model; 0: any
  std::optional<CropRange> crop{};                   // for training; without it the centre crop
  std::uint64_t seed = 0;                            // of crops
  Damaged damaged = Damaged::refuse;

  [[nodiscard]] std::uint64_t max_pixels() const {
    return static_cast<std::uint64_t>(source.max_pixels);
  }
};

}  // namespace trireme
