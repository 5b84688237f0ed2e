// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/random/mix.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/random/mix_math.h"

namespace trireme::ops::cpu {
namespace {

template <typename T>
struct MixImages {
  T* y;
  const T* x;
  const float* shares;
  const std::int32_t* boxes;
  Shape shape;  // (B, H, W, C)

  void operator()() const {
    const std::int64_t batch = shape[0], height = shape[1], width = shape[2], channels = shape[3];
    const std::int64_t picture = height * width * channels;
    for (std::int64_t n = 0; n < batch; ++n) {
      const T* const own = x + n * picture;
      const T* const other = x + (n + 1) % batch * picture;
      std::int64_t i = 0;
      for (std::int64_t row = 0; row < height; ++row) {
        for (std::int64_t column = 0; column < width; ++column) {
          const PixelMix mix = pixel_mix(shares[n], boxes + n * MixBox::count, row, column);
          for (std::int64_t c = 0; c < channels; ++c, ++i)
            store(y[n * picture + i], mix.own * load(own[i]) + mix.other * load(other[i]));
        }
      }
    }
  }
};

}  // namespace

void choose_mix(Stream& stream, const Tensor& shares, const Tensor& boxes, const Tensor& sample_ids,
                const Tensor& epochs, const MixOptions& options) {
  enqueue(stream, [shares = shares.as<float>(), boxes = boxes.as<std::int32_t>(),
                   ids = sample_ids.as<std::int64_t>(), epochs = epochs.as<std::int64_t>(),
                   batch = sample_ids.count(), options] {
    for (std::int64_t n = 0; n < batch; ++n) {
      const MixChoice choice = mix_of(options, ids[n], epochs[n]);
      shares[n] = choice.share;
      std::copy_n(choice.box, +MixBox::count, boxes + n * MixBox::count);
    }
  });
}

void mix_images(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& shares,
                const Tensor& boxes) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, MixImages<T>{y.as<T>(), x.as<T>(), shares.as<float>(), boxes.as<std::int32_t>(),
                                 y.shape});
  });
}

}  // namespace trireme::ops::cpu
