// SPDX-License-Identifier: Apache-2.0
// Statistics take one trip to memory. A chunk of rows is summed around a pivot near its mean (the
// mean so far, at first the first row), so that squares do not cancel; the chunks are merged in
// order in double.
#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/batch_norm_math.h"
#include "runtime/ops/norm/channel_rows_cpu.h"

namespace trireme::ops::cpu {

namespace {

// Arrays of one call, carved from one block that stays.
struct Scratch {
  double* total1;
  double* total2;
  float *a, *b, *c, *d;  // one wide row each

  explicit Scratch(const ChannelRows& rows) {
    static thread_local ScratchBlock block;
    const auto doubles = static_cast<std::size_t>(rows.channels);
    const auto wide = static_cast<std::size_t>(rows.width);
    total1 = reinterpret_cast<double*>(
        block.at_least(2 * doubles * sizeof(double) + 4 * wide * sizeof(float)));
    total2 = total1 + doubles;
    a = reinterpret_cast<float*>(total2 + doubles);
    b = a + wide;
    c = b + wide;
    d = c + wide;
    std::fill_n(total1, 2 * doubles, 0.0);
  }
};

// sum1 = sum of x - pivot, sum2 = sum of its square, over a chunk.
template <typename T>
void sums_around(const ChannelRows& rows, float* sum1, float* sum2, const float* pivot, const T* x,
                 std::int64_t elements) {
  for_each_wide_row(rows, elements, [&](std::int64_t first, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const float difference = load(x[first + i]) - pivot[i];
      sum1[i] += difference;
      sum2[i] += difference * difference;
    }
  });
  rows.fold(sum1);
  rows.fold(sum2);
}

// Leaves the mean in total1 and the sum of squared differences from it in total2.
template <typename T>
void statistics(const ChannelRows& rows, const Scratch& s, const T* x, std::int64_t count) {
  float *const pivot = s.a, *const sum1 = s.b, *const sum2 = s.c;
  const std::int64_t chunk = rows.chunk_rows();
  for (std::int64_t c = 0; c < rows.channels; ++c)
    pivot[c] = load(x[c]);
  for (std::int64_t row = 0; row < count; row += chunk) {
    const std::int64_t n = std::min(chunk, count - row);
    rows.repeat_channels(pivot);
    std::fill_n(sum1, 2 * rows.width, 0.0F);  // sum2 follows sum1
    sums_around(rows, sum1, sum2, pivot, x + row * rows.channels, n * rows.channels);
    const auto added = static_cast<double>(n);
    const MomentsJoin join(static_cast<double>(row), added);
    const double inverse = 1.0 / added;
#pragma omp simd
    for (std::int64_t c = 0; c < rows.channels; ++c) {
      const Moments group =
          moments_around(static_cast<double>(pivot[c]), static_cast<double>(sum1[c]),
                         static_cast<double>(sum2[c]), added, inverse);
      const Moments all = join({s.total1[c], s.total2[c]}, group);
      s.total1[c] = all.mean;
      s.total2[c] = all.squares;
      pivot[c] = static_cast<float>(all.mean);
    }
  }
}

struct Normalization {
  const float *mean, *variance, *gamma, *beta;
  BatchNormOptions options;
};

template <typename T>
void normalize(const ChannelRows& rows, const Scratch& s, T* y, const T* x, std::int64_t count,
               const Normalization& by) {
  float *const mean = s.a, *const scale = s.b, *const shift = s.c;
  std::copy_n(by.mean, rows.channels, mean);
  std::copy_n(by.beta, rows.channels, shift);
#pragma omp simd
  for (std::int64_t c = 0; c < rows.channels; ++c)
    scale[c] = normalizing_scale(by.gamma[c], by.variance[c], by.options.epsilon);
  for (float* const each : {mean, scale, shift})
    rows.repeat_channels(each);
  const bool relu = by.options.relu;
  for_each_wide_row(rows, count * rows.channels, [&](std::int64_t first, std::int64_t n) {
    if (relu) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float value = (load(x[first + i]) - mean[i]) * scale[i] + shift[i];
        store(y[first + i], value < 0.0F ? 0.0F : value);
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        store(y[first + i], (load(x[first + i]) - mean[i]) * scale[i] + shift[i]);
      }
    }
  });
}

// The gradient that reaches the normalised value: masked where ReLU cut it off.
template <bool relu, typename T>
float masked(T dy, const T* y, std::int64_t i) {
  if constexpr (relu) return load(y[i]) > 0.0F ? load(dy) : 0.0F;
  return load(dy);
}

// total1 = sum of dy, total2 = sum of dy * (x - mean).
template <bool relu, typename T>
void gradient_sums(const ChannelRows& rows, const Scratch& s, const T* dy, const T* x, const T* y,
                   const float* channel_mean, std::int64_t count) {
  float *const sum1 = s.a, *const sum2 = s.b, *const mean = s.c;
  std::copy_n(channel_mean, rows.channels, mean);
  rows.repeat_channels(mean);
  const std::int64_t chunk = rows.chunk_rows() * rows.channels;
  const std::int64_t elements = count * rows.channels;
  for (std::int64_t begin = 0; begin < elements; begin += chunk) {
    std::fill_n(sum1, 2 * rows.width, 0.0F);  // sum2 follows sum1
    for_each_wide_row(rows, std::min(chunk, elements - begin),
                      [&](std::int64_t first, std::int64_t n) {
                        const std::int64_t from = begin + first;
#pragma omp simd
                        for (std::int64_t i = 0; i < n; ++i) {
                          const float g = masked<relu>(dy[from + i], y, from + i);
                          sum1[i] += g;
                          sum2[i] += g * (load(x[from + i]) - mean[i]);
                        }
                      });
    rows.fold(sum1);
    rows.fold(sum2);
#pragma omp simd
    for (std::int64_t c = 0; c < rows.channels; ++c) {
      s.total1[c] += static_cast<double>(sum1[c]);
      s.total2[c] += static_cast<double>(sum2[c]);
    }
  }
}

template <typename T>
struct Gradient {
  T* dx;
  float *dgamma, *dbeta;
  const T *dy, *x, *y;
  const float *gamma, *mean, *variance;
  std::int64_t count;
  float epsilon;
};

template <bool relu, typename T>
void gradient(const ChannelRows& rows, const Gradient<T>& g) {
  const Scratch s(rows);
  gradient_sums<relu>(rows, s, g.dy, g.x, g.y, g.mean, g.count);
  float *const scale = s.a, *const offset = s.b, *const mean = s.c, *const slope = s.d;
  const double inverse_count = 1.0 / static_cast<double>(g.count);
  for (std::int64_t c = 0; c < rows.channels; ++c) {
    const ChannelGradient channel(s.total1[c], s.total2[c], inverse_count, g.gamma[c],
                                  g.variance[c], g.epsilon);
    scale[c] = channel.scale;
    offset[c] = channel.offset;
    slope[c] = channel.slope;
    g.dgamma[c] += channel.dgamma;
    g.dbeta[c] += channel.dbeta;
  }
  for (float* const each : {scale, offset, slope})
    rows.repeat_channels(each);
  const T *const dy = g.dy, *const x = g.x, *const y = g.y;
  T* const dx = g.dx;
  for_each_wide_row(rows, g.count * rows.channels, [&](std::int64_t first, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const float from_above = masked<relu>(dy[first + i], y, first + i);
      const float centred = load(x[first + i]) - mean[i];
      store(dx[first + i], scale[i] * from_above - offset[i] - slope[i] * centred);
    }
  });
}

}  // namespace

void batch_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& variance,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [y = y.as<T>(), mean = mean.as<float>(), variance = variance.as<float>(),
                     x = x.as<T>(), gamma = gamma.as<float>(), beta = beta.as<float>(), options,
                     count = x.shape.rows(), channels = x.shape.back()] {
      const ChannelRows rows(channels);
      const Scratch s(rows);
      statistics(rows, s, x, count);
      for (std::int64_t c = 0; c < channels; ++c) {
        mean[c] = static_cast<float>(s.total1[c]);
        variance[c] = static_cast<float>(s.total2[c] / static_cast<double>(count));
      }
      normalize(rows, s, y, x, count, {mean, variance, gamma, beta, options});
    });
  });
}

void batch_norm_inference(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& gamma,
                          const Tensor& beta, const Tensor& mean, const Tensor& variance,
                          const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Normalization by{mean.as<float>(), variance.as<float>(), gamma.as<float>(),
                           beta.as<float>(), options};
    enqueue(stream,
            [y = y.as<T>(), x = x.as<T>(), by, count = x.shape.rows(), channels = x.shape.back()] {
              const ChannelRows rows(channels);
              normalize(rows, Scratch(rows), y, x, count, by);
            });
  });
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x, const Tensor& y,
                         const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                         const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Gradient<T> g{dx.as<T>(),        dgamma.as<float>(), dbeta.as<float>(),
                        dy.as<T>(),        x.as<T>(),          options.relu ? y.as<T>() : nullptr,
                        gamma.as<float>(), mean.as<float>(),   variance.as<float>(),
                        x.shape.rows(),    options.epsilon};
    enqueue(stream, [g, relu = options.relu, channels = x.shape.back()] {
      const ChannelRows rows(channels);
      relu ? gradient<true>(rows, g) : gradient<false>(rows, g);
    });
  });
}

void batch_norm_collect(Stream& stream, const Tensor& mean_sum, const Tensor& variance_sum,
                        const Tensor& mean, const Tensor& variance, std::int64_t n, float weight) {
  enqueue(stream, [mean_sum = mean_sum.as<float>(), variance_sum = variance_sum.as<float>(),
                   mean = mean.as<float>(), variance = variance.as<float>(),
                   channels = mean.count(), n, weight] {
    const float correction = unbiased_factor(n);
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      mean_sum[c] += weight * mean[c];
      variance_sum[c] += weight * (variance[c] * correction);
    }
  });
}

}  // namespace trireme::ops::cpu
