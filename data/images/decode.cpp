// SPDX-License-Identifier: Apache-2.0
#include "data/images/decode.h"

#include <algorithm>
#include <array>

#include "runtime/base/error.h"

namespace trireme {
namespace {

template <std::size_t Size>
bool starts_with(std::span<const std::byte> bytes, const std::array<unsigned char, Size>& magic) {
  return bytes.size() >= Size &&
         std::equal(magic.begin(), magic.end(), bytes.begin(), [](unsigned char a, std::byte b) {
           return a == static_cast<unsigned char>(b);
         });
}

}  // namespace

void refuse_image(std::string_view format, std::string_view reason) {
  throw DamagedImage(fmt::format("damaged {}: {}", format, reason));
}

void check_pixel_count(const ImageSize& size, std::uint64_t max_pixels) {
  const auto [height, width] = size;
  if (width <= 0 || height <= 0)
    throw DamagedImage(fmt::format("is {} x {} pixels", width, height));
  const auto pixels = static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  if (pixels <= max_pixels) return;
  throw DamagedImage(
      fmt::format("claims {} x {} pixels, more than the limit of {}", width, height, max_pixels),
      /*too_large=*/true);
}

DecodedPart decode_part(std::span<const std::byte> bytes, std::int64_t channels,
                        std::uint64_t max_pixels, const ChoosePart& choose) {
  constexpr std::array<unsigned char, 3> jpeg = {0xff, 0xd8, 0xff};
  constexpr std::array<unsigned char, 8> png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  DecodedPart part;
  if (starts_with(bytes, jpeg)) {
    part = decode_jpeg(bytes, max_pixels, choose);
  } else if (starts_with(bytes, png)) {
    part.pixels = decode_png(bytes, max_pixels);
    part.size = {part.pixels.height, part.pixels.width};
    static_cast<void>(choose(part.size));  // the whole image is decoded
  } else {
    throw DamagedImage(fmt::format("is {}", bytes.empty() ? "empty" : "neither JPEG nor PNG"));
  }
  part.pixels = with_channels(std::move(part.pixels), channels);
  return part;
}

Pixels decode_image(std::span<const std::byte> bytes, std::int64_t channels,
                    std::uint64_t max_pixels, const std::string& name) {
  const auto all = [](const ImageSize& size) {
    return PartWanted{{0, 0, size.height, size.width}, 1};
  };
  try {
    return decode_part(bytes, channels, max_pixels, all).pixels;
  } catch (const DamagedImage& error) {
    throw DamagedImage(fmt::format("{}: {}", name, error.what()), error.too_large());
  }
}

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
