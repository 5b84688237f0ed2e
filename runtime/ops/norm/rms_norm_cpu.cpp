// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/scale_offset_cpu.h"

namespace trireme::ops::cpu {
namespace {

template <typename T, typename Offset>
struct Forward {
  T* y;
  float* rstd;
  const T* x;
  const float* gamma;
  const T* residual;  // null, like `sum`: x itself is normalised
  T* sum;
  std::int64_t rows;
  std::int64_t columns;
  float epsilon;
  Offset offset;  // of gamma

  void operator()() const {
    const float scale = 1.0F / static_cast<float>(columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t begin = row * columns;
      const T* in = x + begin;
      if (sum != nullptr) {
        const T* const add = residual + begin;
        T* const kept = sum + begin;
#pragma omp simd
        for (std::int64_t i = 0; i < columns; ++i)
          store(kept[i], load(in[i]) + load(add[i]));
        in = kept;
      }
      float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t i = 0; i < columns; ++i)
        squares += load(in[i]) * load(in[i]);
      const float inverse = 1.0F / std::sqrt(squares * scale + epsilon);
      T* const out = y + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < columns; ++i)
        store(out[i], load(in[i]) * inverse * scaled(gamma[i], offset));
      rstd[row] = inverse;
    }
  }
};

// Rows whose dgamma is summed separately before the total, so a long column loses fewer bits.
constexpr std::int64_t chunk = 64;

// One code for both outputs: another loop might round differently.
template <typename T, typename Offset>
struct Backward {
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

void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& residual, const Tensor& sum,
                      const Tensor& amax, float offset) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    visit_offset(offset, [&](auto added) {
      enqueue(stream,
              Forward<T, decltype(added)>{y.as<T>(), rstd.as<float>(), x.as<T>(), gamma.as<float>(),
                                          residual.empty() ? nullptr : residual.as<T>(),
                                          sum.empty() ? nullptr : sum.as<T>(), x.shape.rows(),
                                          x.shape.back(), epsilon, added});
    });
    enqueue_magnitude<T>(stream, amax, y);
  });
}

void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax, float offset) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    visit_offset(offset, [&](auto added) {
      enqueue(stream, Backward<T, decltype(added)>{dx.empty() ? nullptr : dx.as<T>(),
                                                   dgamma.empty() ? nullptr : dgamma.as<float>(),
                                                   dy.as<T>(), x.as<T>(), gamma.as<float>(),
                                                   rstd.as<float>(), x.shape.rows(), x.shape.back(),
                                                   accumulate, added});
    });
    enqueue_magnitude<T>(stream, amax, dx);
  });
}

}  // namespace trireme::ops::cpu
