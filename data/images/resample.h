// SPDX-License-Identifier: Apache-2.0
// Resizes images: linear interpolation with wider support when shrinking (a triangle filter, like
// Pillow's BILINEAR), so small results do not alias.
#pragma once

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

}  // namespace trireme
