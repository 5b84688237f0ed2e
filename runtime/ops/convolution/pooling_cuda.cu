// SPDX-License-Identifier: Apache-2.0
// One thread per pack of channels of an output pixel (forward) or of an input pixel (backward,
// which gathers). Sums are in the CPU's order, so the bits are equal.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/convolution/pooling.h"
#include "runtime/ops/convolution/pooling_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int most_threads = 256;

// Calls body(pixel, c), with c the first channel of its pack, for this thread's packs of a tensor
// of `pixels` pixels.
template <int width, typename Body>
__device__ void for_each_pack(std::int64_t pixels, std::int64_t channels, const Body& body) {
  const std::int64_t packs = channels / width, count = pixels * packs;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    body(i / packs, i % packs * width);
  }
}

template <int width, typename T>
__global__ void max_pool_kernel(T* y, std::uint8_t* index, const T* x, PoolingGeometry g) {
  for_each_pack<width>(
      g.batch * g.out_count() / g.channels, g.channels, [&](std::int64_t at, std::int64_t c) {
        const Pixel pixel = pixel_at(g.axes, &WindowAxis::out, at);
        const T* const sample = x + pixel.sample * g.in_count() + c;
        float best[width] = {};
        int where[width] = {};
        bool fresh = true;
        PixelWindow(g.axes, pixel).for_each(g.axes, [&](int position, std::int64_t from) {
          const auto pack = load_pack<width>(sample + from * g.channels);
          for (int k = 0; k < width; ++k) {
            const float value = load(pack[k]);
            // NaN wins and stays.
            if (fresh || value > best[k] || value != value) {
              best[k] = value;
              where[k] = position;
            }
          }
          fresh = false;
        });
        Pack<T, width> out;
        Pack<std::uint8_t, width> positions;
        for (int k = 0; k < width; ++k) {
          store(out[k], best[k]);
          positions[k] = static_cast<std::uint8_t>(where[k]);
        }
        store_pack(y + at * g.channels + c, out);
        store_pack(index + at * g.channels + c, positions);
      });
}

template <int width, typename T>
__device__ Pack<T, width> rounded(const float* values, float scale = 1.0F) {
  Pack<T, width> out;
  for (int k = 0; k < width; ++k)
    store(out[k], values[k] * scale);
  return out;
}

template <int width, typename T>
__global__ void max_pool_gradient_kernel(T* dx, const T* dy, const std::uint8_t* index,
                                         PoolingGeometry g) {
  for_each_pack<width>(
      g.batch * g.in_count() / g.channels, g.channels, [&](std::int64_t at, std::int64_t c) {
        const Pixel pixel = pixel_at(g.axes, &WindowAxis::extent, at);
        const std::int64_t sample = pixel.sample * g.out_count() + c;
        float sum[width] = {};
        for_each_cover(g.axes, pixel, [&](const Pixel&, std::int64_t from, int position) {
          const auto chosen = load_pack<width>(index + sample + from * g.channels);
          const auto gradient = load_pack<width>(dy + sample + from * g.channels);
          for (int k = 0; k < width; ++k)
            sum[k] += chosen[k] == position ? load(gradient[k]) : 0.0F;
        });
        store_pack(dx + at * g.channels + c, rounded<width, T>(sum));
      });
}

template <int width, typename T>
__global__ void average_pool_kernel(T* y, const T* x, PoolingGeometry g) {
  for_each_pack<width>(
      g.batch * g.out_count() / g.channels, g.channels, [&](std::int64_t at, std::int64_t c) {
        const Pixel pixel = pixel_at(g.axes, &WindowAxis::out, at);
        const T* const sample = x + pixel.sample * g.in_count() + c;
        const PixelWindow window(g.axes, pixel);
        float sum[width] = {};
        window.for_each(g.axes, [&](int, std::int64_t from) {
          const auto pack = load_pack<width>(sample + from * g.channels);
          for (int k = 0; k < width; ++k)
            sum[k] += load(pack[k]);
        });
        store_pack(y + at * g.channels + c, rounded<width, T>(sum, window.share()));
      });
}

template <int width, typename T>
__global__ void average_pool_gradient_kernel(T* dx, const T* dy, PoolingGeometry g) {
  for_each_pack<width>(g.batch * g.in_count() / g.channels, g.channels,
                       [&](std::int64_t at, std::int64_t c) {
                         const Pixel pixel = pixel_at(g.axes, &WindowAxis::extent, at);
                         const T* const sample = dy + pixel.sample * g.out_count() + c;
                         float sum[width] = {};
                         for_each_cover(g.axes, pixel, [&](const Pixel& y, std::int64_t from, int) {
                           const float share = PixelWindow(g.axes, y).share();
                           const auto gradient = load_pack<width>(sample + from * g.channels);
                           for (int k = 0; k < width; ++k)
                             sum[k] += load(gradient[k]) * share;
                         });
                         store_pack(dx + at * g.channels + c, rounded<width, T>(sum));
                       });
}

// y(N, C), x(N, pixels, C)
template <int width, typename T>
__global__ void average_kernel(T* y, const T* x, std::int64_t batch, std::int64_t pixels,
                               std::int64_t channels) {
  const float scale = 1.0F / static_cast<float>(pixels);
  for_each_pack<width>(batch, channels, [&](std::int64_t n, std::int64_t c) {
    float total[width] = {};
    for (std::int64_t first = 0; first < pixels; first += average_run) {
      float partial[width] = {};
      const std::int64_t last = std::min(first + average_run, pixels);
#pragma unroll 4
      for (std::int64_t p = first; p < last; ++p) {
        const auto pack = load_pack<width>(x + (n * pixels + p) * channels + c);
        for (int k = 0; k < width; ++k)
          partial[k] += load(pack[k]);
      }
      for (int k = 0; k < width; ++k)
        total[k] += partial[k];
    }
    store_pack(y + n * channels + c, rounded<width, T>(total, scale));
  });
}

template <int width, typename T>
__global__ void spread_kernel(T* dx, const T* dy, std::int64_t batch, std::int64_t pixels,
                              std::int64_t channels) {
  const float scale = 1.0F / static_cast<float>(pixels);
  for_each_pack<width>(batch * pixels, channels, [&](std::int64_t at, std::int64_t c) {
    const auto gradient = load_pack<width>(dy + at / pixels * channels + c);
    float values[width];
    for (int k = 0; k < width; ++k)
      values[k] = load(gradient[k]);
    store_pack(dx + at * channels + c, rounded<width, T>(values, scale));
  });
}

// Blocks for `elements` of a tensor in packs.
Grid grid_of(Stream& stream, std::int64_t elements, int width, int threads = most_threads) {
  return grid_for(stream, elements / width, threads, threads);
}

// Calls action(type, width) with the widest packs that fit a tensor of `channels` channels whose
// memory begins at `a`, one like it at `b`, and perhaps their positions.
template <typename Action>
void with_packs(const Tensor& a, const Tensor& b, const std::uint8_t* positions,
                const Action& action) {
  visit_compute_dtype(a.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int widest = pack_width<T>;
    const bool fits = packs_fit(a.as<T>(), a.shape.back(), widest) &&
                      packs_fit(b.as<T>(), 0, widest) && packs_fit(positions, 0, widest);
    with_width<T>(fits, [&](auto width) { action(type, width); });
  });
}

}  // namespace

void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options) {
  auto* const positions = index.as<std::uint8_t>();
  with_packs(x, y, positions, [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, y.count(), w), max_pool_kernel<w, T>, y.as<T>(), positions,
           x.as<T>(), PoolingGeometry(x.shape, options));
  });
}

void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options) {
  const auto* const positions = index.as<std::uint8_t>();
  with_packs(dx, dy, positions, [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, dx.count(), w), max_pool_gradient_kernel<w, T>, dx.as<T>(),
           dy.as<T>(), positions, PoolingGeometry(dx.shape, options));
  });
}

void average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x,
                          const PoolingOptions& options) {
  with_packs(x, y, nullptr, [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, y.count(), w), average_pool_kernel<w, T>, y.as<T>(), x.as<T>(),
           PoolingGeometry(x.shape, options));
  });
}

void average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy,
                           const PoolingOptions& options) {
  with_packs(dx, dy, nullptr, [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, dx.count(), w), average_pool_gradient_kernel<w, T>, dx.as<T>(),
           dy.as<T>(), PoolingGeometry(dx.shape, options));
  });
}

void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  with_packs(x, y, nullptr, [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    // One warp per block: few results of many values then use more multiprocessors.
    launch(stream, grid_of(stream, y.count(), w, 32), average_kernel<w, T>, y.as<T>(), x.as<T>(),
           x.shape[0], pixels_of(x.shape), x.shape.back());
  });
}

void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy) {
  with_packs(dx, dy, nullptr, [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, dx.count(), w), spread_kernel<w, T>, dx.as<T>(), dy.as<T>(),
           dx.shape[0], pixels_of(dx.shape), dx.shape.back());
  });
}

TRIREME_CUDA_PROVIDES(ops, max_pool_forward, max_pool_backward, average_pool_forward,
                      average_pool_backward, global_average_pool_forward,
                      global_average_pool_backward);

}  // namespace trireme::ops::cuda
