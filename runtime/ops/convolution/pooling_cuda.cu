// SPDX-License-Identifier: Apache-2.0
// One thread per pack of channels of an output pixel (forward) or of an input pixel (backward,
// which gathers). Sums are in the CPU's order, so the bits are equal.
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/convolution/pooling.h"
#include "runtime/ops/convolution/pooling_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int most_threads = 256;

// Calls body(n, h, w, c), with c the first channel of its pack, for this thread's packs of an (N,
// H, W, C) tensor.
template <int width, typename Body>
__device__ void for_each_pack(std::int64_t batch, std::int64_t height, std::int64_t columns,
                              std::int64_t channels, const Body& body) {
  const std::int64_t packs = channels / width;
  const std::int64_t count = batch * height * columns * packs;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const std::int64_t pixel = i / packs, row = pixel / columns;
    body(row / height, row % height, pixel % columns, i % packs * width);
  }
}

template <int width, typename T>
__global__ void max_pool_kernel(T* y, std::uint8_t* index, const T* x, PoolingGeometry g) {
  for_each_pack<width>(
      g.batch, g.out_height, g.out_width, g.channels,
      [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t c) {
        const WindowRange rows(oh, g.height, g.options), columns(ow, g.width, g.options);
        float best[width] = {};
        int where[width] = {};
        bool fresh = true;
        for (std::int64_t i = rows.first; i < rows.last; ++i) {
          for (std::int64_t j = columns.first; j < columns.last; ++j) {
            const auto position = static_cast<int>(i * g.options.window + j);
            const auto pack = load_pack<width>(
                x + ((n * g.height + rows.origin + i) * g.width + columns.origin + j) * g.channels +
                c);
            for (int k = 0; k < width; ++k) {
              const float value = load(pack[k]);
              // NaN wins and stays.
              if (fresh || value > best[k] || value != value) {
                best[k] = value;
                where[k] = position;
              }
            }
            fresh = false;
          }
        }
        Pack<T, width> out;
        Pack<std::uint8_t, width> positions;
        for (int k = 0; k < width; ++k) {
          store(out[k], best[k]);
          positions[k] = static_cast<std::uint8_t>(where[k]);
        }
        const std::int64_t to = ((n * g.out_height + oh) * g.out_width + ow) * g.channels + c;
        store_pack(y + to, out);
        store_pack(index + to, positions);
      });
}

template <int width, typename T>
__global__ void max_pool_gradient_kernel(T* dx, const T* dy, const std::uint8_t* index,
                                         PoolingGeometry g) {
  for_each_pack<width>(
      g.batch, g.height, g.width, g.channels,
      [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
        const CoverRange rows(h, g.out_height, g.options), columns(w, g.out_width, g.options);
        float sum[width] = {};
        for (std::int64_t oh = rows.first; oh <= rows.last; ++oh) {
          for (std::int64_t ow = columns.first; ow <= columns.last; ++ow) {
            const std::int64_t i = h + g.options.padding - oh * g.options.stride;
            const std::int64_t j = w + g.options.padding - ow * g.options.stride;
            const auto position = static_cast<int>(i * g.options.window + j);
            const std::int64_t out = ((n * g.out_height + oh) * g.out_width + ow) * g.channels + c;
            const auto chosen = load_pack<width>(index + out);
            const auto gradient = load_pack<width>(dy + out);
            for (int k = 0; k < width; ++k)
              sum[k] += chosen[k] == position ? load(gradient[k]) : 0.0F;
          }
        }
        Pack<T, width> out;
        for (int k = 0; k < width; ++k)
          store(out[k], sum[k]);
        store_pack(dx + ((n * g.height + h) * g.width + w) * g.channels + c, out);
      });
}

// y(N, C), x(N, pixels, C)
template <int width, typename T>
__global__ void average_kernel(T* y, const T* x, std::int64_t batch, std::int64_t pixels,
                               std::int64_t channels) {
  const float scale = 1.0F / static_cast<float>(pixels);
  for_each_pack<width>(
      batch, 1, 1, channels, [&](std::int64_t n, std::int64_t, std::int64_t, std::int64_t c) {
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
        Pack<T, width> out;
        for (int k = 0; k < width; ++k)
          store(out[k], total[k] * scale);
        store_pack(y + n * channels + c, out);
      });
}

template <int width, typename T>
__global__ void spread_kernel(T* dx, const T* dy, std::int64_t batch, std::int64_t pixels,
                              std::int64_t channels) {
  const float scale = 1.0F / static_cast<float>(pixels);
  for_each_pack<width>(batch, pixels, 1, channels,
                       [&](std::int64_t n, std::int64_t p, std::int64_t, std::int64_t c) {
                         const auto gradient = load_pack<width>(dy + n * channels + c);
                         Pack<T, width> out;
                         for (int k = 0; k < width; ++k)
                           store(out[k], load(gradient[k]) * scale);
                         store_pack(dx + (n * pixels + p) * channels + c, out);
                       });
}

// Blocks for `elements` of a tensor in packs.
trireme::cuda::Grid grid_of(Stream& stream, std::int64_t elements, int width,
                            int threads = most_threads) {
  return trireme::cuda::grid_for(stream, elements / width, threads, threads);
}

}  // namespace

void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int widest = pack_width<T>;
    const std::int64_t channels = x.shape[3];
    auto* const positions = index.as<std::uint8_t>();
    const bool fits = packs_fit(x.as<T>(), channels, widest) && packs_fit(y.as<T>(), 0, widest) &&
                      packs_fit(positions, 0, widest);
    with_width<T>(fits, [&](auto width) {
      constexpr int w = decltype(width)::value;
      trireme::cuda::launch(stream, grid_of(stream, y.count(), w), max_pool_kernel<w, T>, y.as<T>(),
                            positions, x.as<T>(), PoolingGeometry(x.shape, y.shape, options));
    });
  });
}

void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int widest = pack_width<T>;
    const std::int64_t channels = dx.shape[3];
    const auto* const positions = index.as<std::uint8_t>();
    const bool fits = packs_fit(dx.as<T>(), channels, widest) && packs_fit(dy.as<T>(), 0, widest) &&
                      packs_fit(positions, 0, widest);
    with_width<T>(fits, [&](auto width) {
      constexpr int w = decltype(width)::value;
      trireme::cuda::launch(stream, grid_of(stream, dx.count(), w), max_pool_gradient_kernel<w, T>,
                            dx.as<T>(), dy.as<T>(), positions,
                            PoolingGeometry(dx.shape, dy.shape, options));
    });
  });
}

void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int widest = pack_width<T>;
    const std::int64_t channels = x.shape[3];
    const bool fits = packs_fit(x.as<T>(), channels, widest) && packs_fit(y.as<T>(), 0, widest);
    with_width<T>(fits, [&](auto width) {
      constexpr int w = decltype(width)::value;
      // One warp per block: few results of many values then use more multiprocessors.
      trireme::cuda::launch(stream, grid_of(stream, y.count(), w, 32), average_kernel<w, T>,
                            y.as<T>(), x.as<T>(), x.shape[0], x.shape[1] * x.shape[2], channels);
    });
  });
}

void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int widest = pack_width<T>;
    const std::int64_t channels = dx.shape[3];
    const bool fits = packs_fit(dx.as<T>(), channels, widest) && packs_fit(dy.as<T>(), 0, widest);
    with_width<T>(fits, [&](auto width) {
      constexpr int w = decltype(width)::value;
      trireme::cuda::launch(stream, grid_of(stream, dx.count(), w), spread_kernel<w, T>, dx.as<T>(),
                            dy.as<T>(), dx.shape[0], dx.shape[1] * dx.shape[2], channels);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, max_pool_forward);
TRIREME_CUDA_PROVIDES(ops, max_pool_backward);
TRIREME_CUDA_PROVIDES(ops, global_average_pool_forward);
TRIREME_CUDA_PROVIDES(ops, global_average_pool_backward);

}  // namespace trireme::ops::cuda
