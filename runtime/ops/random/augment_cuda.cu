// SPDX-License-Identifier: Apache-2.0
// Each thread draws its image's choice once and uses it for several packs.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/random/augment.h"
#include "runtime/ops/random/augment_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;
constexpr int packs_per_thread = 4;

template <typename Pixel>
struct Batch {
  const Pixel* images;
  const std::int64_t* sample_ids;
  const std::int64_t* epochs;
  std::uint32_t height, width, channels;
  std::uint32_t row_elements;
  std::uint32_t blocks_per_image;
  AugmentOptions options;
};

__device__ float normalized(const Batch<float>& /*batch*/, float value, int /*channel*/) {
  return value;
}

__device__ float normalized(const Batch<std::uint8_t>& b, std::uint8_t byte, int c) {
  // Without indexing the options, which would copy them to local memory.
  float mean = b.options.mean[0], stddev = b.options.stddev[0];
  for (int k = 1; k < 4; ++k) {
    mean = c == k ? b.options.mean[k] : mean;
    stddev = c == k ? b.options.stddev[k] : stddev;
  }
  return normalized_byte(byte, mean, stddev);
}

// An element of an image; incremented, because a division takes as long as everything else here.
struct Place {
  int row, column, channel;

  template <typename Pixel>
  __device__ Place(const Batch<Pixel>& b, std::uint32_t element) {
    const std::uint32_t in_row = element % b.row_elements;
    row = static_cast<int>(element / b.row_elements);
    column = static_cast<int>(in_row / b.channels);
    channel = static_cast<int>(in_row % b.channels);
  }
  template <typename Pixel>
  __device__ void advance(const Batch<Pixel>& b) {
    if (++channel < static_cast<int>(b.channels)) return;
    channel = 0;
    if (++column < static_cast<int>(b.width)) return;
    column = 0;
    ++row;
  }
};

template <typename Pixel>
__device__ float pixel(const Batch<Pixel>& b, const Pixel* image, const AugmentChoice& choice,
                       const Place& at) {
  const int height = static_cast<int>(b.height), width = static_cast<int>(b.width);
  const int row = at.row + static_cast<int>(choice.top);
  const int shifted = at.column + static_cast<int>(choice.left);
  if (row < 0 || row >= height || shifted < 0 || shifted >= width) return 0.0F;
  const int column = choice.flip ? width - 1 - shifted : shifted;
  const int from = (row * width + column) * static_cast<int>(b.channels) + at.channel;
  return normalized(b, image[from], at.channel);
}

template <int width, typename T, typename Pixel>
__global__ void augment_kernel(T* y, Batch<Pixel> b) {
  const std::int64_t n = blockIdx.x / b.blocks_per_image;
  const std::uint32_t elements = b.height * b.row_elements;
  const Pixel* const image = b.images + n * elements;
  const AugmentChoice choice = choose_augmentation(b.options, b.sample_ids[n], b.epochs[n]);
  const std::uint32_t first = blockIdx.x % b.blocks_per_image * packs_per_thread;
  for (int k = 0; k < packs_per_thread; ++k) {
    const std::uint32_t i = ((first + k) * threads + threadIdx.x) * width;
    if (i >= elements) return;
    Place at(b, i);
    Pack<T, width> out;
    for (int j = 0; j < width; ++j) {
      store(out[j], pixel(b, image, choice, at));
      at.advance(b);
    }
    store_pack(y + n * elements + i, out);
  }
}

template <typename Pixel>
void launch_augment(Stream& stream, const Tensor& y, const Tensor& images, const Tensor& sample_ids,
                    const Tensor& epochs, const AugmentOptions& options) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const std::int64_t elements = y.shape[1] * y.shape[2] * y.shape[3];
    TRIREME_EXPECTS(elements < std::int64_t{1} << 30, "augment: an image of {} values", elements);
    with_width<T>(packs_fit(y.as<T>(), elements, pack_width<T>),
                  [&]<int w>(std::integral_constant<int, w>) {
                    const std::int64_t blocks =
                        ceil_div(elements, std::int64_t{threads} * packs_per_thread * w);
                    const auto extent = [&](std::size_t axis) {
                      return static_cast<std::uint32_t>(y.shape[axis]);
                    };
                    const Batch<Pixel> batch{images.as<Pixel>(),
                                             sample_ids.as<std::int64_t>(),
                                             epochs.as<std::int64_t>(),
                                             extent(1),
                                             extent(2),
                                             extent(3),
                                             extent(2) * extent(3),
                                             static_cast<std::uint32_t>(blocks),
                                             options};
                    launch(stream, {.blocks = y.shape[0] * blocks, .threads = threads},
                           augment_kernel<w, T, Pixel>, y.as<T>(), batch);
                  });
  });
}

}  // namespace

void augment(Stream& stream, const Tensor& y, const Tensor& images, const Tensor& sample_ids,
             const Tensor& epochs, const AugmentOptions& options) {
  if (images.dtype == DType::f32) {
    launch_augment<float>(stream, y, images, sample_ids, epochs, options);
  } else {
    launch_augment<std::uint8_t>(stream, y, images, sample_ids, epochs, options);
  }
}

TRIREME_CUDA_PROVIDES(ops, augment);

}  // namespace trireme::ops::cuda
