// SPDX-License-Identifier: Apache-2.0
#include "data/pack/images/decode.h"

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

void check_pixel_count(std::int64_t width, std::int64_t height, std::uint64_t max_pixels,
                       const std::string& name) {
  const auto pixels = static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  if (width <= 0 || height <= 0) fail(ExitCode::data, "{}: is {} x {} pixels", name, width, height);
  if (pixels > max_pixels) {
    fail(ExitCode::data,
         "{}: claims {} x {} pixels, more than --max-pixels {}; raise that if the image is genuine",
         name, width, height, max_pixels);
  }
}

Pixels decode_image(std::span<const std::byte> bytes, std::int64_t channels,
                    std::uint64_t max_pixels, const std::string& name) {
  constexpr std::array<unsigned char, 3> jpeg = {0xff, 0xd8, 0xff};
  constexpr std::array<unsigned char, 8> png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (starts_with(bytes, jpeg)) return decode_jpeg(bytes, channels, max_pixels, name);
  if (starts_with(bytes, png)) return decode_png(bytes, channels, max_pixels, name);
  fail(ExitCode::data, "{}: is {}; use JPEG or PNG, or drop it with --skip-bad", name,
       bytes.empty() ? "empty" : "neither JPEG nor PNG");
}

}  // namespace trireme
