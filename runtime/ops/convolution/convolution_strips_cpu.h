// SPDX-License-Identifier: Apache-2.0
// Private: strips of padded image rows in f32, and panels of weights, for direct convolution.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/convolution_tiles_cpu.h"

namespace trireme::ops::cpu::direct {

// Maximum floats of padded input per strip: with a panel of weights it fits a second-level cache of
// 512 KiB.
inline constexpr std::int64_t strip_floats = 96 * 1024;
// Minimum floats and output pixels of a strip for weight gradients.
inline constexpr std::int64_t min_weight_strip_floats = 16 * 1024;
inline constexpr std::int64_t weight_strip_pixels = 196;
// Output pixels per strip, unless a single row has more: bounds its partial results.
inline constexpr std::int64_t strip_pixels = 1024;
// Floats that tiles may read past the last pixel of a strip.
inline constexpr std::int64_t strip_slack = 2 * lanes;

// An image batch (images, height, width, channels) with zeros around each image.
struct PaddedImages {
  std::int64_t images, height, width, channels;
  std::int64_t top, left;                    // padding in front
  std::int64_t padded_height, padded_width;  // in all

  [[nodiscard]] std::int64_t pitch() const { return padded_width * channels; }
  [[nodiscard]] bool unpadded() const { return padded_height == height && padded_width == width; }
};

// Padded rows [first, first + count) of one image, as f32.
template <typename T>
void copy_padded_rows(const PaddedImages& p, float* to, const T* image, std::int64_t first,
                      std::int64_t count) {
  const std::int64_t left = p.left * p.channels;
  const std::int64_t middle = std::min(p.width, p.padded_width - p.left) * p.channels;
  for (std::int64_t row = first; row < first + count; ++row, to += p.pitch()) {
    const std::int64_t from = row - p.top;
    if (from < 0 || from >= p.height) {
      std::fill_n(to, p.pitch(), 0.0F);
      continue;
    }
    const T* const source = image + from * p.width * p.channels;
    std::fill_n(to, left, 0.0F);
#pragma omp simd
    for (std::int64_t i = 0; i < middle; ++i)
      to[left + i] = load(source[i]);
    std::fill(to + left + middle, to + p.pitch(), 0.0F);
  }
}

// How a batch is cut into strips: whole images, several at a time if they are small, or rows of one
// image.
struct StripPlan {
  std::int64_t images;       // per strip
  std::int64_t rows;         // output rows per image and strip
  std::int64_t source_rows;  // maximum of padded rows kept per image

  // `total` output rows of `pixels` pixels per image; n of them need n * step + extra padded rows.
  StripPlan(const PaddedImages& p, std::int64_t total, std::int64_t pixels, std::int64_t step,
            std::int64_t extra, std::int64_t floats) {
    const std::int64_t whole = (total * step + extra) * p.pitch();
    if (whole <= floats && total * pixels <= strip_pixels) {
      const std::int64_t fitting = std::min(floats / whole, strip_pixels / (total * pixels));
      images = std::min(fitting, p.images);
      rows = total;
    } else {
      const std::int64_t fitting =
          std::min((floats / p.pitch() - extra) / step, strip_pixels / pixels);
      const std::int64_t strips = (total - 1) / std::max<std::int64_t>(1, fitting) + 1;
      images = 1;
      rows = (total + strips - 1) / strips;  // strips of nearly equal size
    }
    source_rows = rows * step + extra;
  }
};

// Width of the panel block that starts at `channel`: two vectors, or one if that suffices.
[[nodiscard]] inline std::int64_t width_of_block(std::int64_t channel, std::int64_t channels) {
  return channels - channel > lanes ? block_width : lanes;
}
[[nodiscard]] inline std::int64_t padded_channels(std::int64_t channels) {
  return (channels + lanes - 1) / lanes * lanes;
}

}  // namespace trireme::ops::cpu::direct
