// SPDX-License-Identifier: Apache-2.0
// Images at another size: linear interpolation whose support widens when shrinking (a triangle
// filter, as Pillow's BILINEAR), so that small results do not alias.
#pragma once

#include <cstdint>
#include <span>

#include "data/images/decode.h"

namespace trireme {

// Where the output positions along one side lie in the input. Number i of `count` is centred at
// origin + (first + i + 0.5) * step and made of the input positions around it in [low, high).
struct Axis {
  double origin = 0, step = 1;
  std::int64_t first = 0, count = 0;
  std::int64_t low = 0, high = 0;
};

// The part of an image that is shown, by rows and columns of the output.
struct View {
  Axis rows, columns;
};

// All of `region`, stretched to `height` x `width`; what lies around it has no part in it.
[[nodiscard]] View view_of_region(const Region& region, std::int64_t height, std::int64_t width);
// The image scaled until it covers `cover`, and of that the centre of `height` x `width`.
[[nodiscard]] View view_of_centre(const ImageSize& image, const ImageSize& cover,
                                  std::int64_t height, std::int64_t width);

// What of the image has a part in the view.
[[nodiscard]] Region needed_for(const View& view);
// The most that a JPEG may be reduced by as it is decoded without having to be enlarged again.
[[nodiscard]] std::int64_t reduction_for(const View& view);

// The view of an image of which `part` is decoded, with needed_for() in it; `to` is (H, W, C).
void resample(const DecodedPart& part, const View& view, std::span<std::uint8_t> to);

// Scales the short side to `size` and crops the centre to size x size.
[[nodiscard]] Pixels resize_and_crop(Pixels image, std::int64_t size);

}  // namespace trireme
