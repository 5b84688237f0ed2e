// SPDX-License-Identifier: Apache-2.0
// Statistics read memory once. A chunk of rows is summed around a pivot near its mean (the mean so
// far; at first the first row), so that squares do not cancel; chunks are merged in order in
// double.
#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/batch_norm_math.h"
#include "runtime/ops/norm/channel_rows_cpu.h"

namespace trireme::ops::cpu {

namespace {

// Arrays of one call, carved from one persistent block.
struct Scratch {
  double* total1;
  double* total2;
  float *a, *b, *c, *d, *e, *f;  // one wide row each

  explicit Scratch(const ChannelRows& rows) {
    static thread_local ScratchBlock block;
    const auto doubles = static_cast<std::size_t>(rows.channels);
    const auto wide = static_cast<std::size_t>(rows.width);
    total1 = reinterpret_cast<double*>(
        block.at_least(2 * doubles * sizeof(double) + 6 * wide * sizeof(float)));
    total2 = total1 + doubles;
    a = reinterpret_cast<float*>(total2 + doubles);
    b = a + wide;
    c = b + wide;
    d = c + wide;
    e = d + wide;
    f = e + wide;
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

// Writes the mean to total1 and the sum of squared differences from it to total2.
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

struct Channels {
  const float *gamma, *beta, *mean, *variance;

  explicit Channels(const BatchNormChannels& from)
      : gamma(from.gamma.as<float>()),
        beta(from.beta.as<float>()),
        mean(from.mean.as<float>()),
        variance(from.variance.as<float>()) {}

  // The three numbers of normalized(), along wide rows.
  void spread(const ChannelRows& rows, float epsilon, float* to_mean, float* scale,
              float* shift) const {
    std::copy_n(mean, rows.channels, to_mean);
    std::copy_n(beta, rows.channels, shift);
#pragma omp simd
    for (std::int64_t c = 0; c < rows.channels; ++c)
      scale[c] = normalizing_scale(gamma[c], variance[c], epsilon);
    for (float* const each : {to_mean, scale, shift})
      rows.repeat_channels(each);
  }
};

enum class Summand { none, plain, normalized };

template <typename T>
struct Application {
  T* y;
  const T *x, *summand;
  Channels by, summand_by;
  std::int64_t count;
  BatchNormOptions options;
};

// No restrict: y may alias x or the summand.
template <Summand added, bool relu, typename T>
void apply(const ChannelRows& rows, const Application<T>& a) {
  const Scratch s(rows);
  float *const mean = s.a, *const scale = s.b, *const shift = s.c;
  float *const mean2 = s.d, *const scale2 = s.e, *const shift2 = s.f;
  a.by.spread(rows, a.options.epsilon, mean, scale, shift);
  if constexpr (added == Summand::normalized)
    a.summand_by.spread(rows, a.options.epsilon, mean2, scale2, shift2);
  T* const y = a.y;
  const T *const x = a.x, *const summand = a.summand;
  for_each_wide_row(rows, a.count * rows.channels, [&](std::int64_t first, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      float value = normalized(load(x[first + i]), mean[i], scale[i], shift[i]);
      if constexpr (added == Summand::plain) {
        value = rounded<T>(value) + load(summand[first + i]);
      } else if constexpr (added == Summand::normalized) {
        const float other = normalized(load(summand[first + i]), mean2[i], scale2[i], shift2[i]);
        value = rounded<T>(value) + rounded<T>(other);
      }
      store(y[first + i], relu ? relu_of(value) : value);
    }
  });
}

// The tensor from which the ReLU's mask is recomputed.
enum class Mask { none, input, sum };

template <typename T>
struct Gradient {
  T* dx;
  float *dgamma, *dbeta;
  T* dy;
  const T *x, *sum;
  Channels by;
  std::int64_t count;
  float epsilon;
  const float* parts = nullptr;  // (parts, 2, C): sums, if they are given
  std::int64_t part_count = 0, values = 0;
};

// The running statistics' share of this mean and variance of n values.
void collect(const BatchNormRunning& running, const float* mean, const float* variance,
             std::int64_t n) {
  if (running.mean_sum.empty()) return;
  float *const mean_sum = running.mean_sum.as<float>(), *const variance_sum =
                                                            running.variance_sum.as<float>();
  const float correction = unbiased_factor(n), weight = running.weight;
  const std::int64_t channels = running.mean_sum.count();
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    mean_sum[c] += weight * mean[c];
    variance_sum[c] += weight * (variance[c] * correction);
  }
}

// total1 = sum of dy, total2 = sum of dy * (x - mean). With Mask::sum, dy is masked in place.
template <Mask mask, typename T>
void gradient_sums(const ChannelRows& rows, const Scratch& s, const Gradient<T>& g) {
  float *const sum1 = s.a, *const sum2 = s.b, *const mean = s.c, *const scale = s.d,
               *const shift = s.e;
  g.by.spread(rows, g.epsilon, mean, scale, shift);
  const std::int64_t chunk = rows.chunk_rows() * rows.channels;
  const std::int64_t elements = g.count * rows.channels;
  for (std::int64_t begin = 0; begin < elements; begin += chunk) {
    std::fill_n(sum1, 2 * rows.width, 0.0F);  // sum2 follows sum1
    for_each_wide_row(
        rows, std::min(chunk, elements - begin), [&](std::int64_t first, std::int64_t n) {
          T* const dy = g.dy + begin + first;
          const T* const x = g.x + begin + first;
          const T* const sum = mask == Mask::sum ? g.sum + begin + first : nullptr;
#pragma omp simd
          for (std::int64_t i = 0; i < n; ++i) {
            float above = load(dy[i]);
            const float in = load(x[i]);
            if constexpr (mask == Mask::input)
              above = through_relu<T>(above, normalized(in, mean[i], scale[i], shift[i]));
            if constexpr (mask == Mask::sum) {
              above = load(sum[i]) > 0.0F ? above : 0.0F;
              store(dy[i], above);
            }
            sum1[i] += above;
            sum2[i] += above * (in - mean[i]);
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

template <Mask mask, typename T>
void gradient(const ChannelRows& rows, const Gradient<T>& g) {
  const Scratch s(rows);
  if (g.parts == nullptr) gradient_sums<mask>(rows, s, g);
  for (std::int64_t p = 0; p < g.part_count; ++p) {
    const float* const of = g.parts + p * 2 * rows.channels;
    for (std::int64_t c = 0; c < rows.channels; ++c) {
      s.total1[c] += static_cast<double>(of[c]);
      s.total2[c] += static_cast<double>(of[rows.channels + c]);
    }
  }
  float *const factor = s.a, *const offset = s.b, *const mean = s.c, *const scale = s.d,
               *const shift = s.e, *const slope = s.f;
  const double inverse_count = 1.0 / static_cast<double>(g.values);
  for (std::int64_t c = 0; c < rows.channels; ++c) {
    const ChannelGradient channel(s.total1[c], s.total2[c], inverse_count, g.by.gamma[c],
                                  g.by.variance[c], g.epsilon);
    factor[c] = channel.scale;
    offset[c] = channel.offset;
    slope[c] = channel.slope;
    g.dgamma[c] += channel.dgamma;
    g.dbeta[c] += channel.dbeta;
  }
  for (float* const each : {factor, offset, slope})
    rows.repeat_channels(each);
  const T *const dy = g.dy, *const x = g.x;
  T* const dx = g.dx;
  for_each_wide_row(rows, g.count * rows.channels, [&](std::int64_t first, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      float above = load(dy[first + i]);
      const float in = load(x[first + i]);
      if constexpr (mask == Mask::input)
        above = through_relu<T>(above, normalized(in, mean[i], scale[i], shift[i]));
      store(dx[first + i], factor[i] * above - offset[i] - slope[i] * (in - mean[i]));
    }
  });
}

}  // namespace

void batch_norm_statistics(Stream& stream, const Tensor& mean, const Tensor& variance,
                           const Tensor& x, const BatchNormRunning& running) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [mean = mean.as<float>(), variance = variance.as<float>(), x = x.as<T>(),
                     running, count = x.shape.rows(), channels = x.shape.back()] {
      const ChannelRows rows(channels);
      const Scratch s(rows);
      statistics(rows, s, x, count);
      for (std::int64_t c = 0; c < channels; ++c) {
        mean[c] = static_cast<float>(s.total1[c]);
        variance[c] = static_cast<float>(s.total2[c] / static_cast<double>(count));
      }
      collect(running, mean, variance, count);
    });
  });
}

void batch_norm_join(Stream& stream, const Tensor& mean, const Tensor& variance,
                     const Tensor& parts, const BatchNormRunning& running) {
  enqueue(stream,
          [mean = mean.as<float>(), variance = variance.as<float>(), part = parts.as<float>(),
           count = parts.shape[0], channels = mean.count(), running] {
            double values = 0;
            for (std::int64_t c = 0; c < channels; ++c) {
              Moments all{};
              values = 0;
              for (std::int64_t p = 0; p < count; ++p) {
                const float* const of = part + p * 3 * channels + c;
                const double added = of[2 * channels];
                all = MomentsJoin(values, added)(all, {of[0], of[channels] * added});
                values += added;
              }
              mean[c] = static_cast<float>(all.mean);
              variance[c] = static_cast<float>(all.squares / values);
            }
            collect(running, mean, variance, static_cast<std::int64_t>(values));
          });
}

void batch_norm_apply(Stream& stream, const Tensor& y, const Tensor& x,
                      const BatchNormChannels& channels, const BatchNormOptions& options,
                      const BatchNormSummand& summand) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Application<T> a{y.as<T>(),
                           x.as<T>(),
                           summand.x.empty() ? nullptr : summand.x.as<T>(),
                           Channels(channels),
                           Channels(summand.channels),
                           x.shape.rows(),
                           options};
    enqueue(stream, [a, channels = x.shape.back()] {
      const ChannelRows rows(channels);
      const auto run = [&]<Summand added>(std::integral_constant<Summand, added>) {
        a.options.relu ? apply<added, true>(rows, a) : apply<added, false>(rows, a);
      };
      if (a.summand == nullptr)
        run(std::integral_constant<Summand, Summand::none>{});
      else if (a.summand_by.gamma == nullptr)
        run(std::integral_constant<Summand, Summand::plain>{});
      else
        run(std::integral_constant<Summand, Summand::normalized>{});
    });
  });
}

void batch_norm_gradient_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                              const BatchNormChannels& channels, const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Gradient<T> g{.dx = nullptr,
                        .dgamma = nullptr,
                        .dbeta = nullptr,
                        .dy = dy.as<T>(),
                        .x = x.as<T>(),
                        .sum = nullptr,
                        .by = Channels(channels),
                        .count = x.shape.rows(),
                        .epsilon = options.epsilon};
    enqueue(stream, [g, sums = sums.as<float>(), relu = options.relu, channels = x.shape.back()] {
      const ChannelRows rows(channels);
      const Scratch s(rows);
      relu ? gradient_sums<Mask::input>(rows, s, g) : gradient_sums<Mask::none>(rows, s, g);
      for (std::int64_t c = 0; c < channels; ++c) {
        sums[c] = static_cast<float>(s.total1[c]);
        sums[channels + c] = static_cast<float>(s.total2[c]);
      }
    });
  });
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const BatchNormOptions& options,
                         const Tensor& sum, const BatchNormSums& given) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const bool has_sums = !given.parts.empty();
    const Gradient<T> g{.dx = dx.as<T>(),
                        .dgamma = dgamma.as<float>(),
                        .dbeta = dbeta.as<float>(),
                        .dy = dy.as<T>(),
                        .x = x.as<T>(),
                        .sum = sum.empty() ? nullptr : sum.as<T>(),
                        .by = Channels(channels),
                        .count = x.shape.rows(),
                        .epsilon = options.epsilon,
                        .parts = has_sums ? given.parts.as<float>() : nullptr,
                        .part_count = has_sums ? given.parts.shape[0] : 0,
                        .values = has_sums ? given.values : x.shape.rows()};
    enqueue(stream, [g, relu = options.relu, channels = x.shape.back()] {
      const ChannelRows rows(channels);
      if (g.sum != nullptr)
        gradient<Mask::sum>(rows, g);
      else
        relu ? gradient<Mask::input>(rows, g) : gradient<Mask::none>(rows, g);
    });
  });
}

}  // namespace trireme::ops::cpu
