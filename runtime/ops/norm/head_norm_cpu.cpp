// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/head_norm.h"

#include <algorithm>
#include <cmath>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/scale_offset_cpu.h"

namespace trireme::ops::cpu {
namespace {

struct Sizes {
  std::int64_t rows, heads, kv_heads, size;

  Sizes(const Tensor& x, const HeadNormOptions& options)
      : rows(x.shape[0] * x.shape[1]),
        heads(options.heads),
        kv_heads(options.kv_heads),
        size(x.shape[2] / (heads + 2 * kv_heads)) {}
  [[nodiscard]] std::int64_t normed() const { return heads + kv_heads; }
  [[nodiscard]] std::int64_t width() const { return (heads + 2 * kv_heads) * size; }
};

template <typename T, typename Offset>
struct Forward {
  T* y;
  float* rstd;
  const T* x;
  const float* gammas[2];
  Sizes sizes;
  float epsilon;
  Offset offset;

  void operator()() const {
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      for (std::int64_t head = 0; head < sizes.normed(); ++head) {
        const std::int64_t at = row * sizes.width() + head * sizes.size;
        const T* const in = x + at;
        T* const out = y + at;
        const float* const gamma = gammas[head < sizes.heads ? 0 : 1];
        float squares = 0.0F;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t i = 0; i < sizes.size; ++i)
          squares += load(in[i]) * load(in[i]);
        const float inverse = 1.0F / std::sqrt(squares / static_cast<float>(sizes.size) + epsilon);
#pragma omp simd
        for (std::int64_t i = 0; i < sizes.size; ++i)
          store(out[i], load(in[i]) * inverse * scaled(gamma[i], offset));
        rstd[row * sizes.normed() + head] = inverse;
      }
      const std::int64_t values = row * sizes.width() + sizes.normed() * sizes.size;
      std::copy_n(x + values, sizes.kv_heads * sizes.size, y + values);
    }
  }
};

// Rows summed separately before the total, so a long column loses fewer bits.
constexpr std::int64_t chunk = 64;

template <typename T, typename Offset>
struct Backward {
  T* dqkv;
  float* d_gammas[2];
  const T* x;
  const float* rstd;
  const float* gammas[2];
  Sizes sizes;
  Offset offset;

  // With n = x rstd and g = dy gamma: dx = rstd (g - n mean(g n)), dgamma += dy n.
  void one_head(std::int64_t row, std::int64_t head, float* sums) const {
    const std::int64_t at = row * sizes.width() + head * sizes.size;
    const T* const in = x + at;
    T* const slope = dqkv + at;
    const float* const gamma = gammas[head < sizes.heads ? 0 : 1];
    const float inverse = rstd[row * sizes.normed() + head];
    float sum_gn = 0.0F;
#pragma omp simd reduction(+ : sum_gn)
    for (std::int64_t i = 0; i < sizes.size; ++i) {
      const float product = load(slope[i]) * (load(in[i]) * inverse);
      sums[i] += product;
      sum_gn += product * scaled(gamma[i], offset);
    }
    const float mean_gn = sum_gn / static_cast<float>(sizes.size);
#pragma omp simd
    for (std::int64_t i = 0; i < sizes.size; ++i)
      store(slope[i], inverse * (load(slope[i]) * scaled(gamma[i], offset) -
                                 load(in[i]) * inverse * mean_gn));
  }

  void operator()() const {
    static thread_local ScratchBlock block;
    float* const sums = block.floats(static_cast<std::size_t>(2 * sizes.size));
    for (std::int64_t first = 0; first < sizes.rows; first += chunk) {
      std::fill_n(sums, 2 * sizes.size, 0.0F);
      for (std::int64_t row = first; row < std::min(first + chunk, sizes.rows); ++row) {
        for (std::int64_t head = 0; head < sizes.normed(); ++head)
          one_head(row, head, sums + (head < sizes.heads ? 0 : sizes.size));
      }
      for (std::int64_t i = 0; i < sizes.size; ++i) {
        d_gammas[0][i] += sums[i];
        d_gammas[1][i] += sums[sizes.size + i];
      }
    }
  }
};

}  // namespace

void head_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                       const Tensor& query_gamma, const Tensor& key_gamma,
                       const HeadNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    visit_offset(options.offset, [&](auto added) {
      enqueue(stream, Forward<T, decltype(added)>{y.as<T>(),
                                                  rstd.as<float>(),
                                                  x.as<T>(),
                                                  {query_gamma.as<float>(), key_gamma.as<float>()},
                                                  {x, options},
                                                  options.epsilon,
                                                  added});
    });
  });
}

void head_norm_backward(Stream& stream, const Tensor& dqkv, const Tensor& d_query_gamma,
                        const Tensor& d_key_gamma, const Tensor& x, const Tensor& rstd,
                        const Tensor& query_gamma, const Tensor& key_gamma,
                        const HeadNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    visit_offset(options.offset, [&](auto added) {
      enqueue(stream,
              Backward<T, decltype(added)>{dqkv.as<T>(),
                                           {d_query_gamma.as<float>(), d_key_gamma.as<float>()},
                                           x.as<T>(),
                                           rstd.as<float>(),
                                           {query_gamma.as<float>(), key_gamma.as<float>()},
                                           {x, options},
                                           added});
    });
  });
}

}  // namespace trireme::ops::cpu
