// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/pooling_math.h"

namespace trireme::ops::cpu {

namespace {

// Channels processed together: their running values fit registers or the first-level cache.
constexpr std::int64_t channel_block = 64;

// Calls body(pixel, its index in the whole batch) for the pixels of x (&WindowAxis::extent) or y
// (&WindowAxis::out).
template <typename Body>
void for_each_pixel(const PoolingGeometry& g, std::int64_t WindowAxis::*value, const Body& body) {
  std::int64_t index = 0;
  for (std::int64_t n = 0; n < g.batch; ++n) {
    for (std::int64_t d = 0; d < g.axes.depth.*value; ++d) {
      for (std::int64_t h = 0; h < g.axes.height.*value; ++h) {
        for (std::int64_t w = 0; w < g.axes.width.*value; ++w)
          body(Pixel{n, d, h, w}, index++);
      }
    }
  }
}

template <typename T>
void max_pool_pixel(T* y, std::uint8_t* index, const T* sample, const PoolingGeometry& g,
                    const PixelWindow& window) {
  for (std::int64_t c = 0; c < g.channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, g.channels - c);
    float best[channel_block];
    std::int32_t where[channel_block];
    bool fresh = true;
    window.for_each(g.axes, [&](std::int32_t position, std::int64_t pixel) {
      const T* const x = sample + pixel * g.channels + c;
      if (fresh) {
        fresh = false;
#pragma omp simd
        for (std::int64_t k = 0; k < count; ++k) {
          best[k] = load(x[k]);
          where[k] = position;
        }
        return;
      }
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k) {
        const float value = load(x[k]);
        // NaN wins and stays. No && or ||, which would be branches.
        const bool better = (value > best[k]) | (value != value);
        best[k] = better ? value : best[k];
        where[k] = better ? position : where[k];
      }
    });
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k) {
      store(y[c + k], best[k]);
      index[c + k] = static_cast<std::uint8_t>(where[k]);
    }
  }
}

// Gathers from every window with the pixel, so each value is summed in f32 and rounded once.
template <typename T>
void max_pool_gradient_pixel(T* dx, const T* dy, const std::uint8_t* index,
                             const PoolingGeometry& g, const Pixel& pixel) {
  for (std::int64_t c = 0; c < g.channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, g.channels - c);
    float sum[channel_block] = {};
    for_each_cover(g.axes, pixel, [&](const Pixel&, std::int64_t at, std::int32_t position) {
      const std::int64_t out = at * g.channels + c;
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k) {
        const bool chosen = static_cast<std::int32_t>(index[out + k]) == position;
        sum[k] += chosen ? load(dy[out + k]) : 0.0F;
      }
    });
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k)
      store(dx[c + k], sum[k]);
  }
}

// Whether no pixel is in two windows, and whether each is in one.
bool disjoint(const WindowAxis& axis) {
  return axis.stride >= axis.window;
}
bool covers(const WindowAxis& axis) {
  return axis.stride <= axis.window && axis.out * axis.stride - axis.padding >= axis.extent;
}
template <bool (*holds)(const WindowAxis&)>
bool on_all(const WindowAxes& axes) {
  return holds(axes.depth) && holds(axes.height) && holds(axes.width);
}

// Windows that do not overlap, from the outputs: each writes all its pixels.
template <typename T>
void max_pool_gradient_window(T* sample, const T* dy, const std::uint8_t* index,
                              const PoolingGeometry& g, const PixelWindow& window) {
  for (std::int64_t c = 0; c < g.channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, g.channels - c);
    float gradient[channel_block];
    std::int32_t where[channel_block];
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k) {
      gradient[k] = load(dy[c + k]);
      where[k] = index[c + k];
    }
    window.for_each(g.axes, [&](std::int32_t position, std::int64_t pixel) {
      T* const dx = sample + pixel * g.channels + c;
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k)
        store(dx[k], where[k] == position ? gradient[k] : 0.0F);
    });
  }
}

template <typename T>
void average_pixel(T* y, const T* sample, const PoolingGeometry& g, const PixelWindow& window) {
  const float share = window.share();
  for (std::int64_t c = 0; c < g.channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, g.channels - c);
    float sum[channel_block] = {};
    window.for_each(g.axes, [&](std::int32_t, std::int64_t pixel) {
      const T* const x = sample + pixel * g.channels + c;
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k)
        sum[k] += load(x[k]);
    });
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k)
      store(y[c + k], sum[k] * share);
  }
}

template <typename T>
void average_gradient_pixel(T* dx, const T* dy, const PoolingGeometry& g, const Pixel& pixel) {
  for (std::int64_t c = 0; c < g.channels; c += channel_block) {
    const std::int64_t count = std::min(channel_block, g.channels - c);
    float sum[channel_block] = {};
    for_each_cover(g.axes, pixel, [&](const Pixel& y, std::int64_t at, std::int32_t) {
      const float share = PixelWindow(g.axes, y).share();
#pragma omp simd
      for (std::int64_t k = 0; k < count; ++k)
        sum[k] += load(dy[at * g.channels + c + k]) * share;
    });
#pragma omp simd
    for (std::int64_t k = 0; k < count; ++k)
      store(dx[c + k], sum[k]);
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
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [y = y.as<T>(), index = index.as<std::uint8_t>(), x = x.as<T>(),
                     g = PoolingGeometry(x.shape, options)] {
      for_each_pixel(g, &WindowAxis::out, [&](const Pixel& pixel, std::int64_t at) {
        max_pool_pixel(y + at * g.channels, index + at * g.channels,
                       x + pixel.sample * g.in_count(), g, PixelWindow(g.axes, pixel));
      });
    });
  });
}

void max_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& index,
                       const PoolingOptions& options) {
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    enqueue(stream, [dx = dx.as<T>(), dy = dy.as<T>(), index = index.as<std::uint8_t>(),
                     g = PoolingGeometry(dx.shape, options)] {
      if (on_all<disjoint>(g.axes)) {
        if (!on_all<covers>(g.axes)) std::fill_n(dx, g.batch * g.in_count(), T{});
        for_each_pixel(g, &WindowAxis::out, [&](const Pixel& pixel, std::int64_t at) {
          max_pool_gradient_window(dx + pixel.sample * g.in_count(), dy + at * g.channels,
                                   index + at * g.channels, g, PixelWindow(g.axes, pixel));
        });
        return;
      }
      for_each_pixel(g, &WindowAxis::extent, [&](const Pixel& pixel, std::int64_t at) {
        const std::int64_t sample = pixel.sample * g.out_count();
        max_pool_gradient_pixel(dx + at * g.channels, dy + sample, index + sample, g, pixel);
      });
    });
  });
}

void average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x,
                          const PoolingOptions& options) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [y = y.as<T>(), x = x.as<T>(), g = PoolingGeometry(x.shape, options)] {
      for_each_pixel(g, &WindowAxis::out, [&](const Pixel& pixel, std::int64_t at) {
        average_pixel(y + at * g.channels, x + pixel.sample * g.in_count(), g,
                      PixelWindow(g.axes, pixel));
      });
    });
  });
}

void average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy,
                           const PoolingOptions& options) {
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    enqueue(stream, [dx = dx.as<T>(), dy = dy.as<T>(), g = PoolingGeometry(dx.shape, options)] {
      for_each_pixel(g, &WindowAxis::extent, [&](const Pixel& pixel, std::int64_t at) {
        average_gradient_pixel(dx + at * g.channels, dy + pixel.sample * g.out_count(), g, pixel);
      });
    });
  });
}

void global_average_pool_forward(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [y = y.as<T>(), x = x.as<T>(), batch = x.shape[0], pixels = pixels_of(x.shape),
                     channels = x.shape.back()] {
      for (std::int64_t n = 0; n < batch; ++n) {
        average_image(y + n * channels, x + n * pixels * channels, pixels, channels);
      }
    });
  });
}

void global_average_pool_backward(Stream& stream, const Tensor& dx, const Tensor& dy) {
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    enqueue(stream, [dx = dx.as<T>(), dy = dy.as<T>(), batch = dx.shape[0],
                     pixels = pixels_of(dx.shape), channels = dx.shape.back()] {
      for (std::int64_t n = 0; n < batch; ++n) {
        spread_image(dx + n * pixels * channels, dy + n * channels, pixels, channels);
      }
    });
  });
}

}  // namespace trireme::ops::cpu
