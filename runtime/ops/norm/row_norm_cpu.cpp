// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/row_norm.h"

#include <algorithm>
#include <cmath>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/scale_offset_cpu.h"

namespace trireme::ops::cpu {
namespace {

// Layer norm, or RMS norm, which does not center: `mean` and `beta` are null then. Passes after the
// first hit the first-level cache.
template <typename T, bool centers, typename Offset = NoOffset>
struct Forward {
  T* y;
  float* mean;
  float* rstd;
  const T* x;
  const float* gamma;
  const float* beta;
  std::int64_t rows;
  std::int64_t columns;
  float epsilon;
  Offset offset;  // of gamma, without centering

  void operator()() const {
    const float scale = 1.0F / static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const in = x + row * columns;
      T* const out = y + row * columns;
      float center = 0.0F;
      if constexpr (centers) {
#pragma omp simd reduction(+ : center)
        for (std::int64_t i = 0; i < columns; ++i)
          center += load(in[i]);
        mean[row] = center *= scale;
      }
      const auto distance = [&](std::int64_t i) {
        if constexpr (centers) return load(in[i]) - center;
        return load(in[i]);
      };
      float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t i = 0; i < columns; ++i)
        squares += distance(i) * distance(i);
      const float inverse = 1.0F / std::sqrt(squares * scale + epsilon);
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i) {
        if constexpr (centers)
          store(out[i], distance(i) * inverse * gamma[i] + beta[i]);
        else
          store(out[i], distance(i) * inverse * scaled(gamma[i], offset));
      }
      rstd[row] = inverse;
    }
  }
};

// Rows processed together, so that dgamma and dbeta are read and written once for all of them.
constexpr std::int64_t group = 4;
// Rows whose dgamma and dbeta are summed separately before the total, so a long column loses fewer
// bits.
constexpr std::int64_t chunk = 64;

// One code for all combinations of outputs: another loop might round differently.
template <typename T>
struct LayerBackward {
  T* dx;          // null: only dgamma and dbeta are wanted
  float* dgamma;  // both null: only dx is wanted
  float* dbeta;
  const T* dy;
  const T* x;
  const float* gamma;
  const float* mean;
  const float* rstd;
  std::int64_t rows;
  std::int64_t columns;
  bool accumulate;

  // With n = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - n mean(g n)).
  void finish_row(std::int64_t row, float sum_g, float sum_gn) const {
    if (dx == nullptr) return;
    const T* const slope = dy + row * columns;
    const T* const in = x + row * columns;
    T* const out = dx + row * columns;
    const float scale = 1.0F / static_cast<float>(columns);
    const float center = mean[row];
    const float inverse = rstd[row];
    const float mean_g = sum_g * scale;
    const float mean_gn = sum_gn * scale;
    if (accumulate) {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i) {
        const float n = (load(in[i]) - center) * inverse;
        store(out[i], load(out[i]) + inverse * (load(slope[i]) * gamma[i] - mean_g - n * mean_gn));
      }
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i) {
        const float n = (load(in[i]) - center) * inverse;
        store(out[i], inverse * (load(slope[i]) * gamma[i] - mean_g - n * mean_gn));
      }
    }
  }

  void one_row(std::int64_t row, float* gamma_sum, float* beta_sum) const {
    const T* const slope = dy + row * columns;
    const T* const in = x + row * columns;
    const float center = mean[row];
    const float inverse = rstd[row];
    float sum_g = 0.0F;
    float sum_gn = 0.0F;
#pragma omp simd reduction(+ : sum_g, sum_gn)
    for (std::int64_t i = 0; i < columns; ++i) {
      const float d = load(slope[i]);
      const float n = (load(in[i]) - center) * inverse;
      gamma_sum[i] += d * n;
      beta_sum[i] += d;
      sum_g += d * gamma[i];
      sum_gn += d * gamma[i] * n;
    }
    finish_row(row, sum_g, sum_gn);
  }

  void four_rows(std::int64_t row, float* gamma_sum, float* beta_sum) const {
    const T* const d0 = dy + row * columns;
    const T* const d1 = d0 + columns;
    const T* const d2 = d1 + columns;
    const T* const d3 = d2 + columns;
    const T* const x0 = x + row * columns;
    const T* const x1 = x0 + columns;
    const T* const x2 = x1 + columns;
    const T* const x3 = x2 + columns;
    const float m0 = mean[row], m1 = mean[row + 1], m2 = mean[row + 2], m3 = mean[row + 3];
    const float r0 = rstd[row], r1 = rstd[row + 1], r2 = rstd[row + 2], r3 = rstd[row + 3];
    float g0 = 0, g1 = 0, g2 = 0, g3 = 0;
    float n0 = 0, n1 = 0, n2 = 0, n3 = 0;
#pragma omp simd reduction(+ : g0, g1, g2, g3, n0, n1, n2, n3)
    for (std::int64_t i = 0; i < columns; ++i) {
      const float a0 = load(d0[i]), a1 = load(d1[i]), a2 = load(d2[i]), a3 = load(d3[i]);
      const float b0 = a0 * ((load(x0[i]) - m0) * r0);
      const float b1 = a1 * ((load(x1[i]) - m1) * r1);
      const float b2 = a2 * ((load(x2[i]) - m2) * r2);
      const float b3 = a3 * ((load(x3[i]) - m3) * r3);
      gamma_sum[i] += (b0 + b1) + (b2 + b3);
      beta_sum[i] += (a0 + a1) + (a2 + a3);
      const float factor = gamma[i];
      g0 += a0 * factor;
      g1 += a1 * factor;
      g2 += a2 * factor;
      g3 += a3 * factor;
      n0 += b0 * factor;
      n1 += b1 * factor;
      n2 += b2 * factor;
      n3 += b3 * factor;
    }
    finish_row(row, g0, n0);
    finish_row(row + 1, g1, n1);
    finish_row(row + 2, g2, n2);
    finish_row(row + 3, g3, n3);
  }

  void operator()() const {
    static thread_local ScratchBlock block;
    float* const gamma_sum = block.floats(static_cast<std::size_t>(2 * columns));
    float* const beta_sum = gamma_sum + columns;
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const std::int64_t end = std::min(first + chunk, rows);
      std::fill_n(gamma_sum, 2 * columns, 0.0F);
      std::int64_t row = first;
      for (; row + group <= end; row += group)
        four_rows(row, gamma_sum, beta_sum);
      for (; row < end; ++row)
        one_row(row, gamma_sum, beta_sum);
      if (dgamma == nullptr) continue;
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i) {
        dgamma[i] += gamma_sum[i];
        dbeta[i] += beta_sum[i];
      }
    }
  }
};

// One code for both outputs: another loop might round differently.
template <typename T, typename Offset>
struct RmsBackward {
  T* dx;          // null: only dgamma is wanted
  float* dgamma;  // null: only dx is wanted
  const T* dy;
  const T* x;
  const float* gamma;
  const float* rstd;
  std::int64_t rows;
  std::int64_t columns;
  bool accumulate;
  Offset offset;  // of gamma

  // With n = x rstd and g = dy gamma: dx = rstd (g - n mean(g n)).
  void one_row(std::int64_t row, float* gamma_sum) const {
    const T* const slope = dy + row * columns;
    const T* const in = x + row * columns;
    const float inverse = rstd[row];
    float sum_gn = 0.0F;
#pragma omp simd reduction(+ : sum_gn)
    for (std::int64_t i = 0; i < columns; ++i) {
      const float product = load(slope[i]) * (load(in[i]) * inverse);
      gamma_sum[i] += product;
      sum_gn += product * scaled(gamma[i], offset);
    }
    if (dx == nullptr) return;
    T* const out = dx + row * columns;
    const float mean_gn = sum_gn / static_cast<float>(columns);
    const auto gradient = [&](std::int64_t i) {
      return inverse *
             (load(slope[i]) * scaled(gamma[i], offset) - load(in[i]) * inverse * mean_gn);
    };
    if (accumulate) {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        store(out[i], load(out[i]) + gradient(i));
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        store(out[i], gradient(i));
    }
  }

  void operator()() const {
    static thread_local ScratchBlock block;
    float* const gamma_sum = block.floats(static_cast<std::size_t>(columns));
    for (std::int64_t first = 0; first < rows; first += chunk) {
      std::fill_n(gamma_sum, columns, 0.0F);
      for (std::int64_t row = first; row < std::min(first + chunk, rows); ++row)
        one_row(row, gamma_sum);
      if (dgamma == nullptr) continue;
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        dgamma[i] += gamma_sum[i];
    }
  }
};

}  // namespace

void layer_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon,
                        const Tensor& amax) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, Forward<T, true>{y.as<T>(),
                                     mean.as<float>(),
                                     rstd.as<float>(),
                                     x.as<T>(),
                                     gamma.as<float>(),
                                     beta.as<float>(),
                                     x.shape.rows(),
                                     x.shape.back(),
                                     epsilon,
                                     {}});
    enqueue_magnitude<T>(stream, amax, y);
  });
}

void layer_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         bool accumulate, const Tensor& amax) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, LayerBackward<T>{dx.empty() ? nullptr : dx.as<T>(),
                                     dgamma.empty() ? nullptr : dgamma.as<float>(),
                                     dbeta.empty() ? nullptr : dbeta.as<float>(), dy.as<T>(),
                                     x.as<T>(), gamma.as<float>(), mean.as<float>(),
                                     rstd.as<float>(), x.shape.rows(), x.shape.back(), accumulate});
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& amax, float offset) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    visit_offset(offset, [&](auto added) {
      enqueue(stream, Forward<T, false, decltype(added)>{
                          y.as<T>(), nullptr, rstd.as<float>(), x.as<T>(), gamma.as<float>(),
                          nullptr, x.shape.rows(), x.shape.back(), epsilon, added});
    });
    enqueue_magnitude<T>(stream, amax, y);
  });
}

void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax, float offset) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    visit_offset(offset, [&](auto added) {
      enqueue(stream, RmsBackward<T, decltype(added)>{dx.empty() ? nullptr : dx.as<T>(),
                                                      dgamma.empty() ? nullptr : dgamma.as<float>(),
                                                      dy.as<T>(), x.as<T>(), gamma.as<float>(),
                                                      rstd.as<float>(), x.shape.rows(),
                                                      x.shape.back(), accumulate, added});
    });
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

}  // namespace trireme::ops::cpu
