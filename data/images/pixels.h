// SPDX-License-Identifier: Apache-2.0
// Decoded images.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

// Rows top to bottom, channels interleaved.
struct Pixels {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  // 1 or 3
  std::vector<std::uint8_t> data;
};

// Grey to RGB by repetition; RGB to grey by ITU-R BT.601 luma weights.
[[nodiscard]] Pixels with_channels(Pixels image, std::int64_t channels);

}  // namespace trireme
