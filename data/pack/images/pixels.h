// SPDX-License-Identifier: Apache-2.0
// Size and colour of decoded images.
#pragma once

#include "data/pack/images/image_source.h"

namespace trireme {

// Grey to RGB by repetition; RGB to grey by the luma weights of ITU-R BT.601.
[[nodiscard]] Pixels with_channels(Pixels image, std::int64_t channels);

// Scales the short side to `size` and crops the centre to size x size. Linear interpolation whose
// support widens when shrinking (a triangle filter), so that small results do not alias.
[[nodiscard]] Pixels resize_and_crop(const Pixels& image, std::int64_t size);

}  // namespace trireme
