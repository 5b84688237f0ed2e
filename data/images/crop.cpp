// SPDX-License-Identifier: Apache-2.0
#include "data/images/crop.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/philox.h"

namespace trireme {
namespace {

constexpr std::uint64_t attempts = 10;

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::floor(value + 0.5));
}

// [0, count)
std::int64_t below(std::uint32_t word, std::int64_t count) {
  return static_cast<std::int64_t>((word * static_cast<std::uint64_t>(count)) >> 32);
}

Region centre(const ImageSize& image, std::int64_t height, std::int64_t width) {
  return {(image.height - height) / 2, (image.width - width) / 2, height, width};
}

}  // namespace

Region random_crop(const ImageSize& image, const CropRange& range, std::uint64_t seed,
                   std::int64_t sample, std::int64_t epoch) {
  const Philox random = Philox::keyed(seed, RandomPurpose::crop);
  const auto area = static_cast<double>(image.height) * static_cast<double>(image.width);
  const double low = std::log(range.ratio[0]), high = std::log(range.ratio[1]);
  for (std::uint64_t attempt = 0; attempt < attempts; ++attempt) {
    const auto words = random(static_cast<std::uint64_t>(sample),
                              static_cast<std::uint64_t>(epoch) << 4 | attempt);
    const double share = range.scale[0] + (range.scale[1] - range.scale[0]) *
                                              static_cast<double>(Philox::uniform(words[0]));
    const double ratio =
        std::exp(low + (high - low) * static_cast<double>(Philox::uniform(words[1])));
    const std::int64_t width = rounded(std::sqrt(area * share * ratio)),
                       height = rounded(std::sqrt(area * share / ratio));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    return {below(words[2], image.height - height + 1), below(words[3], image.width - width + 1),
            height, width};
  }
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  const auto side = [](double value, std::int64_t most) {
    return std::clamp<std::int64_t>(rounded(value), 1, most);
  };
  if (ratio < range.ratio[0])
    return centre(image, side(static_cast<double>(image.width) / range.ratio[0], image.height),
                  image.width);
  if (ratio > range.ratio[1])
    return centre(image, image.height,
                  side(static_cast<double>(image.height) * range.ratio[1], image.width));
  return {0, 0, image.height, image.width};
}

}  // namespace trireme
