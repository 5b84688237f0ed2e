// SPDX-License-Identifier: Apache-2.0
#include "data/images/pixels.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {

Pixels with_channels(Pixels image, std::int64_t channels) {
  if (image.channels == channels) return image;
  TRIREME_EXPECTS((channels == 1 || channels == 3) && (image.channels == 1 || image.channels == 3),
                  "{} channels from {}", channels, image.channels);
  const auto count = static_cast<std::size_t>(image.height * image.width);
  std::vector<std::uint8_t> data(count * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < count; ++i) {
    if (channels == 3) {
      std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, image.data[i]);
    } else {
      const std::uint8_t* const rgb = image.data.data() + 3 * i;
      // Integer weights that sum to 65536: white stays 255.
      data[i] = static_cast<std::uint8_t>(
          (19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16);
    }
  }
  return {image.height, image.width, channels, std::move(data)};
}

}  // namespace trireme
