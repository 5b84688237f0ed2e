// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/pooling_math.h"

namespace trireme::ops::cpu {

namespace {

// Channels processed together: their running values fit registers or the first-level cache.
constexpr std::int64_t channel_block = 64;

template <typename T>
void max_pool_pixel(T* y, std::uint8_t* index, const T* image, const PoolingGeometry& g,
                    const WindowRange& rows, const WindowRange& columns) {
  for (std::int64_t c = 0; c < g.channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, g.channels - c);
    float best[channel_block];
    std::int32_t where[channel_block];
    bool fresh = true;
    for (std::int64_t i = rows.first; i < rows.last; ++i) {
      for (std::int64_t j = columns.first; j < columns.last; ++j) {
        const auto position = static_cast<std::int32_t>(i * g.options.window + j);
        const T* const x =
            image + ((rows.origin + i) * g.width + columns.origin + j) * g.channels + c;
        if (fresh) {
          fresh = false;
#pragma omp simd
          for (std::int64_t k = 0; k < count; ++k) {
            best[k] = load(x[k]);
            where[k] = position;
          }
          continue;
        }
#pragma omp simd
        for (std::int64_t k = 0; k < count; ++k) {
          const float value = load(x[k]);
          // NaN wins and stays. No && or ||, which would be branches.
          const bool better = (value > best[k]) | (value != value);
          best[k] = better ? value : best[k];
          where[k] = better ? position : where[k];
        }
      }
    }
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k) {
      store(y[c + k], best[k]);
      index[c + k] = static_cast<std::uint8_t>(where[k]);
    }
  }
}

template <typename T>
void max_pool(T* y, std::uint8_t* index, const T* x, const PoolingGeometry& g) {
  for (std::int64_t n = 0; n < g.batch; ++n) {
    const T* const image = x + n * g.height * g.width * g.channels;
    for (std::int64_t oh = 0; oh < g.out_height; ++oh) {
      const WindowRange rows(oh, g.height, g.options);
      for (std::int64_t ow = 0; ow < g.out_width; ++ow) {
        const std::int64_t out = ((n * g.out_height + oh) * g.out_width + ow) * g.channels;
        max_pool_pixel(y + out, index + out, image, g, rows, WindowRange(ow, g.width, g.options));
      }
    }
  }
}

// Gathers from every window with the pixel, so each value is summed in f32 and rounded once.
template <typename T>
void max_pool_gradient_pixel(T* dx, const T* dy, const std::uint8_t* index,
                             const PoolingGeometry& g, std::int64_t h, std::int64_t w) {
  const CoverRange rows(h, g.out_height, g.options), columns(w, g.out_width, g.options);
  for (std::int64_t c = 0; c < g.channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, g.channels - c);
    float sum[channel_block] = {};
    for (std::int64_t oh = rows.first; oh <= rows.last; ++oh) {
      for (std::int64_t ow = columns.first; ow <= columns.last; ++ow) {
        const std::int64_t i = h + g.options.padding - oh * g.options.stride;
        const std::int64_t j = w + g.options.padding - ow * g.options.stride;
        const auto position = static_cast<std::int32_t>(i * g.options.window + j);
        const std::int64_t out = (oh * g.out_width + ow) * g.channels + c;
#pragma omp simd
        for (std::int64_t k = 0; k < count; ++k) {
          const bool chosen = static_cast<std::int32_t>(index[out + k]) == position;
          sum[k] += chosen ? load(dy[out + k]) : 0.0F;
        }
      }
    }
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k)
      store(dx[c + k], sum[k]);
  }
}

template <typename T>
void max_pool_gradient(T* dx, const T* dy, const std::uint8_t* index, const PoolingGeometry& g) {
  for (std::int64_t n = 0; n < g.batch; ++n) {
    const std::int64_t out = n * g.out_height * g.out_width * g.channels;
    for (std::int64_t h = 0; h < g.height; ++h) {
      for (std::int64_t w = 0; w < g.width; ++w) {
        const std::int64_t in = ((n * g.height + h) * g.width + w) * g.channels;
        max_pool_gradient_pixel(dx + in, dy + out, index + out, g, h, w);
      }
    }
  }
}

template <typename T>
void average_image(T* y, const T* x, std::int64_t pixels, std::int64_t channels) {
  const float scale = 1.0F / static_cast<float>(pixels);
  for (std::int64_t c = 0; c < channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, channels - c);
    float total[channel_block] = {};
    for (std::int64_t first = 0; first < pixels; first += average_run) {
      float partial[channel_block] = {};
      for (std::int64_t p = first; p < std::min(first + average_run, pixels); ++p) {
        const T* const from = x + p * channels + c;
#pragma omp simd
        for (std::int64_t k = 0; k < count; ++k)
          partial[k] += load(from[k]);
      }
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k)
        total[k] += partial[k];
    }
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k)
      store(y[c + k], total[k] * scale);
  }
}

template <typename T>
void spread_image(T* dx, const T* dy, std::int64_t pixels, std::int64_t channels) {
  const float scale = 1.0F / static_cast<float>(pixels);
  for (std::int64_t p = 0; p < pixels; ++p) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      store(dx[p * channels + c], load(dy[c]) * scale);
  }
}

}  // namespace

void max_pool_forward(Stream& stream, const Tensor& y, const Tensor& index, const Tensor& x,
                      const PoolingOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [y = y.as<T>(), index = index.as<std::uint8_t>(), x = x.as<T>(),
                     g = PoolingGeometry(x.shape, y.shape, options)] { max_pool(y, index, x, g); });
  });
}

void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [dx = dx.as<T>(), dy = dy.as<T>(), index = index.as<std::uint8_t>(),
                     g = PoolingGeometry(dx.shape, dy.shape, options)] {
      max_pool_gradient(dx, dy, index, g);
    });
  });
}

void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [y = y.as<T>(), x = x.as<T>(), batch = x.shape[0],
                     pixels = x.shape[1] * x.shape[2], channels = x.shape[3]] {
      for (std::int64_t n = 0; n < batch; ++n) {
        average_image(y + n * channels, x + n * pixels * channels, pixels, channels);
      }
    });
  });
}

void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [dx = dx.as<T>(), dy = dy.as<T>(), batch = dx.shape[0],
                     pixels = dx.shape[1] * dx.shape[2], channels = dx.shape[3]] {
      for (std::int64_t n = 0; n < batch; ++n) {
        spread_image(dx + n * pixels * channels, dy + n * channels, pixels, channels);
      }
    });
  });
}

}  // namespace trireme::ops::cpu
