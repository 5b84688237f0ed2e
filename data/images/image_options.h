// SPDX-License-Identifier: Apache-2.0
// Options for images read in place, from the config's data section.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/images/crop.h"
#include "runtime/config/choices.h"

namespace trireme {

// 8/7 of the short side, rounded: 256 for 224.
[[nodiscard]] constexpr std::int64_t centre_resize(std::int64_t side) {
  return (side * 8 + 3) / 7;
}

struct ImageOptions {
  std::vector<std::string> images{};  // archives, patterns, or a directory
  std::string label = "cls";
  std::int64_t height = 0, width = 0, channels = 3;  // of samples
  std::int64_t classes = 0;                          // of the model; 0: any
  std::optional<CropRange> crop{};                   // for training; without it the centre crop
  std::uint64_t seed = 0;                            // of crops
  // Without a crop the image is scaled until its short side has this length, and its centre is
  // taken; 0: 8/7 of the sample's short side, 256 for 224. (If height and width differ: until it
  // covers the sample, with the aspect ratio kept.)
  std::int64_t resize = 0;
  Damaged damaged = Damaged::refuse;
  bool reduced_decode = true;  // of JPEGs, if the sample is much smaller than the crop
  std::uint64_t max_pixels = std::uint64_t{1} << 27;
};

}  // namespace trireme
