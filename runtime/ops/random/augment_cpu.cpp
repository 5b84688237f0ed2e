// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/augment.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/random/augment_math.h"

namespace trireme::ops::cpu {

namespace {

struct ImageExtent {
  std::int64_t height, width, channels;
};

// The normalised value of each byte, per channel.
template <typename T>
struct NormalizeTable {
  T values[4][256];

  NormalizeTable(const AugmentOptions& options, std::int64_t channels) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
      for (int byte = 0; byte < 256; ++byte)
        store(values[c][byte], normalized_byte(byte, options.mean[c], options.stddev[c]));
    }
  }
  [[nodiscard]] T operator()(std::int64_t channel, std::uint8_t byte) const {
    return values[channel][byte];
  }
};

// Floats are copied.
template <typename T>
struct AsTheyAre {
  AsTheyAre(const AugmentOptions& /*options*/, std::int64_t /*channels*/) {}
  [[nodiscard]] T operator()(std::int64_t /*channel*/, float value) const {
    T out;
    store(out, value);
    return out;
  }
};

// One row of output; `image_row` is null if the whole row is padding.
template <typename T, typename Pixel, typename Normalize>
void augment_row(T* y, const Pixel* image_row, const ImageExtent& extent,
                 const AugmentChoice& choice, const Normalize& normalize) {
  const std::int64_t channels = extent.channels;
  const std::int64_t first = std::clamp<std::int64_t>(-choice.left, 0, extent.width);
  const std::int64_t last =
      image_row == nullptr
          ? first
          : std::clamp<std::int64_t>(extent.width - choice.left, first, extent.width);
  std::fill(y, y + first * channels, T(0.0F));
  std::fill(y + last * channels, y + extent.width * channels, T(0.0F));
  for (std::int64_t w = first; w < last; ++w) {
    const std::int64_t column = w + choice.left;
    const Pixel* const pixel =
        image_row + (choice.flip ? extent.width - 1 - column : column) * channels;
    for (std::int64_t c = 0; c < channels; ++c)
      y[w * channels + c] = normalize(c, pixel[c]);
  }
}

template <typename Normalize, typename T, typename Pixel>
void augment_batch(T* y, const Pixel* images, const std::int64_t* sample_ids,
                   const std::int64_t* epochs, std::int64_t batch, const ImageExtent& extent,
                   const AugmentOptions& options) {
  const Normalize normalize(options, extent.channels);
  const std::int64_t row = extent.width * extent.channels;
  for (std::int64_t n = 0; n < batch; ++n) {
    const AugmentChoice choice = choose_augmentation(options, sample_ids[n], epochs[n]);
    const Pixel* const image = images + n * extent.height * row;
    for (std::int64_t h = 0; h < extent.height; ++h) {
      const std::int64_t from = h + choice.top;
      const bool inside = from >= 0 && from < extent.height;
      augment_row(y + (n * extent.height + h) * row, inside ? image + from * row : nullptr, extent,
                  choice, normalize);
    }
  }
}

}  // namespace

void augment(Stream& stream, const Tensor& y, const Tensor& images, const Tensor& sample_ids,
             const Tensor& epochs, const AugmentOptions& options) {
  const ImageExtent extent{y.shape[1], y.shape[2], y.shape[3]};
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const auto run = [&]<typename Normalize, typename Pixel>(Normalize*, const Pixel* pixels) {
      enqueue(stream, [y = y.as<T>(), pixels, ids = sample_ids.as<std::int64_t>(),
                       epochs = epochs.as<std::int64_t>(), batch = y.shape[0], extent, options] {
        augment_batch<Normalize>(y, pixels, ids, epochs, batch, extent, options);
      });
    };
    if (images.dtype == DType::f32) {
      run(static_cast<AsTheyAre<T>*>(nullptr), images.as<float>());
    } else {
      run(static_cast<NormalizeTable<T>*>(nullptr), images.as<std::uint8_t>());
    }
  });
}

}  // namespace trireme::ops::cpu
