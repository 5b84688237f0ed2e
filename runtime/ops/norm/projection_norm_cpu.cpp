// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/norm/projection_norm_math.h"

namespace trireme::ops::cpu {
namespace {

// Rows summed separately before the total, so a long column loses fewer bits.
constexpr std::int64_t chunk = 64;

template <typename T>
struct Backward {
  T* dqkv;
  float* gradients[2];
  const T* x;
  const float* squares;
  const float* slopes;
  PartScales scales;
  ProjectionRows rows;

  // With n = x rstd and g = dy scale: dx = rstd (g - n mean(g n)), dscale += dy n.
  void one_part(std::int64_t row, int part, float* sums) const {
    const std::int64_t at = rows.at(row, part);
    const T* const in = x + at;
    T* const slope = dqkv + at;
    const float* const scale = scales.at(part);
    const float inverse = rows.inverse(squares, row, part);
    const float mean = slopes[2 * row + part] * rows.over(part);
#pragma omp simd
    for (std::int64_t i = 0; i < rows.channels(part); ++i) {
      const float dy = load(slope[i]), normed = load(in[i]) * inverse;
      sums[i] += dy * normed;
      store(slope[i], inverse * (dy * scale[i] - normed * mean));
    }
  }

  void operator()() const {
    static thread_local ScratchBlock block;
    const std::int64_t columns = rows.parts[0] + rows.parts[1];
    float* const sums = block.floats(static_cast<std::size_t>(columns));
    for (std::int64_t first = 0; first < rows.rows; first += chunk) {
      std::fill_n(sums, columns, 0.0F);
      for (std::int64_t row = first; row < std::min(first + chunk, rows.rows); ++row) {
        one_part(row, 0, sums);
        one_part(row, 1, sums + rows.parts[0]);
      }
      for (int part = 0; part < 2; ++part) {
        for (std::int64_t i = 0; i < rows.channels(part); ++i)
          gradients[part][i] += sums[part * rows.parts[0] + i];
      }
    }
  }
};

}  // namespace

void projection_norm_squares(Stream& stream, const Tensor& squares, const Tensor& x,
                             const ProjectionNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [to = squares.as<float>(), in = x.as<T>(), rows = ProjectionRows(x, options)] {
      for (std::int64_t i = 0; i < 2 * rows.rows; ++i) {
        const int part = static_cast<int>(i % 2);
        const T* const from = in + rows.at(i / 2, part);
        float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t c = 0; c < rows.channels(part); ++c)
          sum += load(from[c]) * load(from[c]);
        to[i] = sum;
      }
    });
  });
}

void projection_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                             const Tensor& squares, const ProjectionScales& scales,
                             const ProjectionNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [out = y.as<T>(), in = x.as<T>(), sums = squares.as<float>(),
                     scale = PartScales(scales), rows = ProjectionRows(x, options)] {
      for (std::int64_t row = 0; row < rows.rows; ++row) {
        for (int part = 0; part < 2; ++part) {
          const std::int64_t at = rows.at(row, part);
          const float inverse = rows.inverse(sums, row, part);
          const float* const gamma = scale.at(part);
#pragma omp simd
          for (std::int64_t c = 0; c < rows.channels(part); ++c)
            store(out[at + c], load(in[at + c]) * inverse * gamma[c]);
        }
        const std::int64_t values = rows.at(row, 1) + rows.parts[1];
        std::copy_n(in + values, rows.parts[1], out + values);
      }
    });
  });
}

void projection_norm_slopes(Stream& stream, const Tensor& slopes, const Tensor& dy, const Tensor& x,
                            const Tensor& squares, const ProjectionScales& scales,
                            const ProjectionNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [to = slopes.as<float>(), slope = dy.as<T>(), in = x.as<T>(),
                     sums = squares.as<float>(), scale = PartScales(scales),
                     rows = ProjectionRows(x, options)] {
      for (std::int64_t i = 0; i < 2 * rows.rows; ++i) {
        const int part = static_cast<int>(i % 2);
        const std::int64_t at = rows.at(i / 2, part);
        const float inverse = rows.inverse(sums, i / 2, part);
        const float* const gamma = scale.at(part);
        float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t c = 0; c < rows.channels(part); ++c)
          sum += load(slope[at + c]) * gamma[c] * (load(in[at + c]) * inverse);
        to[i] = sum;
      }
    });
  });
}

void projection_norm_backward(Stream& stream, const Tensor& dqkv, const ProjectionScales& gradients,
                              const Tensor& x, const Tensor& squares, const Tensor& slopes,
                              const ProjectionScales& scales,
                              const ProjectionNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, Backward<T>{dqkv.as<T>(),
                                {gradients.queries.as<float>(), gradients.keys.as<float>()},
                                x.as<T>(),
                                squares.as<float>(),
                                slopes.as<float>(),
                                PartScales(scales),
                                ProjectionRows(x, options)});
  });
}

}  // namespace trireme::ops::cpu
