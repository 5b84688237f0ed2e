// SPDX-License-Identifier: Apache-2.0
// Private: sums over rows for each channel, and the gradient through their normalisation, shared by
// batch norm and group norm. Statistics read memory once. A chunk of rows is summed around a pivot
// near its mean (the mean so far; at first the first row), so that squares do not cancel; chunks
// are merged in order in double.
#pragma once

#include <algorithm>

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/batch_norm_math.h"
#include "runtime/ops/norm/channel_rows_cpu.h"

namespace trireme::ops::cpu {

// Arrays of one call, carved from one persistent block.
struct ChannelScratch {
  double* total1;
  double* total2;
  float *a, *b, *c, *d, *e, *f;  // one wide row each

  explicit ChannelScratch(const ChannelRows& rows) {
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
void channel_statistics(const ChannelRows& rows, const ChannelScratch& s, const T* x,
                        std::int64_t count) {
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

// The three numbers of normalized(), along wide rows.
inline void spread(const NormChannels& by, const ChannelRows& rows, float epsilon, float* mean,
                   float* scale, float* shift) {
  std::copy_n(by.mean, rows.channels, mean);
  std::copy_n(by.beta, rows.channels, shift);
#pragma omp simd
  for (std::int64_t c = 0; c < rows.channels; ++c)
    scale[c] = normalizing_scale(by.gamma[c], by.variance[c], epsilon);
  for (float* const each : {mean, scale, shift})
    rows.repeat_channels(each);
}

// No restrict: y may alias x or the summand.
template <NormSummand added, bool relu, typename T>
void apply_norm(const ChannelRows& rows, const NormApplication<T>& a) {
  const ChannelScratch s(rows);
  float *const mean = s.a, *const scale = s.b, *const shift = s.c;
  float *const mean2 = s.d, *const scale2 = s.e, *const shift2 = s.f;
  spread(a.by, rows, a.options.epsilon, mean, scale, shift);
  if constexpr (added == NormSummand::normalized)
    spread(a.summand_by, rows, a.options.epsilon, mean2, scale2, shift2);
  T* const y = a.y;
  const T *const x = a.x, *const summand = a.summand;
  for_each_wide_row(rows, a.count * rows.channels, [&](std::int64_t first, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      float value = normalized(load(x[first + i]), mean[i], scale[i], shift[i]);
      if constexpr (added == NormSummand::plain) {
        value = rounded<T>(value) + load(summand[first + i]);
      } else if constexpr (added == NormSummand::normalized) {
        const float other = normalized(load(summand[first + i]), mean2[i], scale2[i], shift2[i]);
        value = rounded<T>(value) + rounded<T>(other);
      }
      store(y[first + i], relu ? relu_of(value) : value);
    }
  });
}

// total1 = sum of dy, total2 = sum of dy * (x - mean). With ReluMask::sum, dy is masked in place.
template <ReluMask mask, typename T>
void gradient_sums(const ChannelRows& rows, const ChannelScratch& s, const NormGradient<T>& g) {
  float *const sum1 = s.a, *const sum2 = s.b, *const mean = s.c, *const scale = s.d,
               *const shift = s.e;
  spread(g.by, rows, g.epsilon, mean, scale, shift);
  const std::int64_t chunk = rows.chunk_rows() * rows.channels;
  const std::int64_t elements = g.count * rows.channels;
  for (std::int64_t begin = 0; begin < elements; begin += chunk) {
    std::fill_n(sum1, 2 * rows.width, 0.0F);  // sum2 follows sum1
    for_each_wide_row(
        rows, std::min(chunk, elements - begin), [&](std::int64_t first, std::int64_t n) {
          T* const dy = g.dy + begin + first;
          const T* const x = g.x + begin + first;
          const T* const sum = mask == ReluMask::sum ? g.sum + begin + first : nullptr;
#pragma omp simd
          for (std::int64_t i = 0; i < n; ++i) {
            float above = load(dy[i]);
            const float in = load(x[i]);
            if constexpr (mask == ReluMask::input)
              above = through_relu<T>(above, normalized(in, mean[i], scale[i], shift[i]));
            if constexpr (mask == ReluMask::sum) {
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

// Adds part(2, C) of given sums of dy and of dy * (x - mean).
inline void add_part(const ChannelRows& rows, const ChannelScratch& s, const float* part) {
  for (std::int64_t c = 0; c < rows.channels; ++c) {
    s.total1[c] += static_cast<double>(part[c]);
    s.total2[c] += static_cast<double>(part[rows.channels + c]);
  }
}

// dx from the factors along wide rows that the caller left in s.a (of dy), s.b (offset) and s.f
// (slope); s.c, s.d and s.e are those of gradient_sums.
template <ReluMask mask, typename T>
void input_gradient(const ChannelRows& rows, const ChannelScratch& s, const NormGradient<T>& g) {
  float *const factor = s.a, *const offset = s.b, *const mean = s.c, *const scale = s.d,
               *const shift = s.e, *const slope = s.f;
  for (float* const each : {factor, offset, slope})
    rows.repeat_channels(each);
  const T *const dy = g.dy, *const x = g.x;
  T* const dx = g.dx;
  for_each_wide_row(rows, g.count * rows.channels, [&](std::int64_t first, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      float above = load(dy[first + i]);
      const float in = load(x[first + i]);
      if constexpr (mask == ReluMask::input)
        above = through_relu<T>(above, normalized(in, mean[i], scale[i], shift[i]));
      store(dx[first + i], factor[i] * above - offset[i] - slope[i] * (in - mean[i]));
    }
  });
}

}  // namespace trireme::ops::cpu
