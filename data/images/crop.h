// SPDX-License-Identifier: Apache-2.0
// Random resized crops, as in ImageNet training of ResNets: a random share of the image's area with
// a random aspect ratio (Szegedy et al., "Going deeper with convolutions", CVPR 2015).
#pragma once

#include <array>
#include <cstdint>

#include "data/images/resample.h"

namespace trireme {

struct CropRange {
  std::array<double, 2> scale{0.08, 1.0};             // of the image's area
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  // width / height, uniform in its logarithm
};

// A pure function: Philox keyed by `seed` at (sample, epoch, attempt). After ten attempts that do
// not fit into the image, returns the largest centre crop that the ratios allow.
[[nodiscard]] Region random_crop(const ImageSize& image, const CropRange& range, std::uint64_t seed,
                                 std::int64_t sample, std::int64_t epoch);

}  // namespace trireme
