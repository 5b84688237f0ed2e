// SPDX-License-Identifier: Apache-2.0
// A thread per sample chooses; a thread per value mixes.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/random/mix.h"
#include "runtime/ops/random/mix_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;

__global__ void choose_mix_kernel(float* shares, std::int32_t* boxes, const std::int64_t* ids,
                                  const std::int64_t* epochs, std::int64_t batch,
                                  MixOptions options) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (n >= batch) return;
  const MixChoice choice = mix_of(options, ids[n], epochs[n]);
  shares[n] = choice.share;
  for (int i = 0; i < MixBox::count; ++i)
    boxes[n * MixBox::count + i] = choice.box[i];
}

struct Pictures {
  std::int64_t batch, height, width, channels;
};

template <typename T>
__global__ void mix_images_kernel(T* y, const T* x, const float* shares, const std::int32_t* boxes,
                                  Pictures p) {
  const std::int64_t picture = p.height * p.width * p.channels, count = p.batch * picture;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  for (; i < count; i += stride) {
    const std::int64_t n = i / picture, at = i % picture, pixel = at / p.channels;
    const PixelMix mix =
        pixel_mix(shares[n], boxes + n * MixBox::count, pixel / p.width, pixel % p.width);
    const float other = load(x[(n + 1) % p.batch * picture + at]);
    store(y[i], mix.own * load(x[i]) + mix.other * other);
  }
}

}  // namespace

void choose_mix(Stream& stream, const Tensor& shares, const Tensor& boxes, const Tensor& sample_ids,
                const Tensor& epochs, const MixOptions& options) {
  const std::int64_t batch = sample_ids.count();
  launch(stream, {.blocks = ceil_div(batch, std::int64_t{threads}), .threads = threads},
         choose_mix_kernel, shares.as<float>(), boxes.as<std::int32_t>(),
         sample_ids.as<std::int64_t>(), epochs.as<std::int64_t>(), batch, options);
}

void mix_images(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& shares,
                const Tensor& boxes) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    launch(stream, grid_for(stream, y.count(), threads, threads), mix_images_kernel<T>, y.as<T>(),
           x.as<T>(), shares.as<float>(), boxes.as<std::int32_t>(),
           Pictures{y.shape[0], y.shape[1], y.shape[2], y.shape[3]});
  });
}

TRIREME_CUDA_PROVIDES(ops, choose_mix, mix_images);

}  // namespace trireme::ops::cuda
