// SPDX-License-Identifier: Apache-2.0
// Resizes images: linear interpolation with wider support when shrinking (a triangle filter, like
// Pillow's BILINEAR), so small results do not alias.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "data/images/decode.h"

namespace trireme {

// Maps output positions along one side to the input. Output i of `count` has its centre at origin +
// (first + i + 0.5) * step and uses the input positions around it in [low, high).
struct Axis {
  double origin = 0, step = 1;
  std::int64_t first = 0, count = 0;
  std::int64_t low = 0, high = 0;
};

// The visible part of an image, per row and column of the output.
struct View {
  Axis rows, columns;
};

// Stretches `region` to `height` x `width`; pixels around it are not used.
[[nodiscard]] View view_of_region(const Region& region, std::int64_t height, std::int64_t width);
// Scales the image until it covers `cover`, and takes the centre of `height` x `width`.
[[nodiscard]] View view_of_centre(const ImageSize& image, const ImageSize& cover,
                                  std::int64_t height, std::int64_t width);

// The part of the image that the view uses.
[[nodiscard]] Region needed_for(const View& view);
// The largest JPEG reduction at decoding that needs no enlargement afterwards.
[[nodiscard]] std::int64_t reduction_for(const View& view);

// Draws the view from `part`, a decoded part that contains needed_for(); `to` is (H, W, C).
void resample(const DecodedPart& part, const View& view, std::span<std::uint8_t> to);

// Scales the short side to `size` and crops the centre to size x size.
[[nodiscard]] Pixels resize_and_crop(Pixels image, std::int64_t size);

// Random resized crops, as in ImageNet training of ResNets: a random share of the image's area with
// a random aspect ratio (Szegedy et al., "Going deeper with convolutions", CVPR 2015).
struct CropRange {
  std::array<double, 2> scale{0.08, 1.0};             // of the image's area
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  // width / height, uniform in its logarithm
};

// A pure function: Philox keyed by `seed` at (sample, epoch, attempt). After ten attempts that do
// not fit into the image, returns the largest centre crop that the ratios allow.
[[nodiscard]] Region random_crop(const ImageSize& image, const CropRange& range, std::uint64_t seed,
                                 std::int64_t sample, std::int64_t epoch);

}  // namespace trireme
