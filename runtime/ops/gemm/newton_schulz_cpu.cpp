// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/gemm/newton_schulz_math.h"

namespace trireme::ops::cpu {

namespace {

// visit(element of y (count, N, K), element of x) for all of y, in its order.
template <typename Visit>
void for_each_place(const MatrixBlocks& blocks, Visit&& visit) {
  const auto [rows, columns, row_step, column_step] =
      blocks.transposed ? std::array{blocks.columns, blocks.rows, std::int64_t{1}, blocks.columns}
                        : std::array{blocks.rows, blocks.columns, blocks.columns, std::int64_t{1}};
  std::int64_t i = 0;
  for (std::int64_t b = 0; b < blocks.count; ++b) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = b * blocks.stride + row * row_step;
      for (std::int64_t column = 0; column < columns; ++column)
        visit(i++, first + column * column_step);
    }
  }
}

}  // namespace

void load_matrices(Stream& stream, const Tensor& y, const Tensor& x, const MatrixBlocks& blocks) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = y.as<T>(), from = x.as<float>(), blocks] {
      for_each_place(blocks,
                     [&](std::int64_t i, std::int64_t place) { store(to[i], from[place]); });
    });
  });
}

void store_matrices(Stream& stream, const Tensor& x, const Tensor& y, const MatrixBlocks& blocks,
                    float factor) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = x.as<float>(), from = y.as<T>(), blocks, factor] {
      for_each_place(
          blocks, [&](std::int64_t i, std::int64_t place) { to[place] = factor * load(from[i]); });
    });
  });
}

void newton_schulz_gram(Stream& stream, const Tensor& g, const Tensor& scale, const Tensor& gram,
                        bool normalize) {
  visit_compute_dtype(g.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = g.as<T>(), scale = scale.as<float>(), from = gram.as<float>(), normalize,
                     side = gram.shape[0]] {
      float factor = 1.0F;
      if (normalize) {
        double trace = 0.0;
        for (std::int64_t i = 0; i < side; ++i)
          trace += from[i * (side + 1)];
        factor = scale_of_trace(trace);
      }
      *scale = factor;
      const std::int64_t count = side * side;
      const float square = factor * factor;
      for (std::int64_t i = 0; i < count; ++i)
        store(to[i], square * from[i]);
    });
  });
}

void newton_schulz_polynomial(Stream& stream, const Tensor& p, const Tensor& g, const Tensor& g2,
                              const Tensor& scale) {
  visit_compute_dtype(p.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = p.as<T>(), g = g.as<T>(), g2 = g2.as<T>(), scale = scale.as<float>(),
                     side = p.shape[0]] {
      for (std::int64_t row = 0; row < side; ++row) {
        for (std::int64_t i = row * side; i < (row + 1) * side; ++i)
          store(to[i], polynomial(load(g[i]), load(g2[i]), i == row * (side + 1), *scale));
      }
    });
  });
}

}  // namespace trireme::ops::cpu
