// SPDX-License-Identifier: Apache-2.0
#include "data/pack/images/pixels.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// The input samples that make one output sample, and their weights (sum 1).
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_for(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach + 0.5)));
    const auto end = std::min(from, static_cast<std::int64_t>(std::floor(centre + reach + 0.5)));
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = begin;
    double sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const double weight =
          std::max(0.0, 1.0 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights)
      weight = static_cast<float>(weight / sum);
  }
  return all;
}

// (height, width, channels) -> (height, to, channels), as floats.
std::vector<float> resize_rows(const Pixels& image, std::int64_t to) {
  const std::vector<Taps> taps = taps_for(image.width, to);
  std::vector<float> out(static_cast<std::size_t>(image.height * to * image.channels));
  float* next = out.data();
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* const row = image.data.data() + y * image.width * image.channels;
    for (const Taps& tap : taps) {
      for (std::int64_t c = 0; c < image.channels; ++c) {
        float sum = 0;
        const std::uint8_t* at = row + tap.first * image.channels + c;
        for (const float weight : tap.weights) {
          sum += weight * static_cast<float>(*at);
          at += image.channels;
        }
        *next++ = sum;
      }
    }
  }
  return out;
}

// (height, row floats) -> rows [first, first + count) of an image of `to` rows.
Pixels resize_columns(const std::vector<float>& rows, const Pixels& from, std::int64_t width,
                      std::int64_t to) {
  const std::vector<Taps> taps = taps_for(from.height, to);
  const std::int64_t stride = width * from.channels;
  Pixels out{to, width, from.channels,
             std::vector<std::uint8_t>(static_cast<std::size_t>(to * stride))};
  std::vector<float> sum(static_cast<std::size_t>(stride));
  for (std::int64_t y = 0; y < to; ++y) {
    const Taps& tap = taps[static_cast<std::size_t>(y)];
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::size_t k = 0; k < tap.weights.size(); ++k) {
      const float* const row = rows.data() + (tap.first + static_cast<std::int64_t>(k)) * stride;
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += tap.weights[k] * row[i];
    }
    std::uint8_t* const target = out.data.data() + y * stride;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      target[i] = static_cast<std::uint8_t>(std::clamp(sum[i] + 0.5F, 0.0F, 255.0F));
    }
  }
  return out;
}

Pixels crop_centre(const Pixels& image, std::int64_t size) {
  const std::int64_t top = (image.height - size) / 2, left = (image.width - size) / 2;
  Pixels out{size, size, image.channels, {}};
  out.data.reserve(static_cast<std::size_t>(size * size * image.channels));
  for (std::int64_t y = 0; y < size; ++y) {
    const auto row = image.data.begin() + ((top + y) * image.width + left) * image.channels;
    out.data.insert(out.data.end(), row, row + size * image.channels);
  }
  return out;
}

}  // namespace

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

Pixels resize_and_crop(const Pixels& image, std::int64_t size) {
  if (image.height == size && image.width == size) return image;
  const std::int64_t shorter = std::min(image.height, image.width);
  const auto scaled = [&](std::int64_t side) {
    return std::max(size, (side * size + shorter / 2) / shorter);
  };
  const std::int64_t height = scaled(image.height), width = scaled(image.width);
  return crop_centre(resize_columns(resize_rows(image, width), image, width, height), size);
}

}  // namespace trireme
