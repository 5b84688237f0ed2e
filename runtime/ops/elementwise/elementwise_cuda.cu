// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/columns_cuda.h"
#include "runtime/ops/common/fixed_sum_cuda.h"
#include "runtime/ops/common/maps_cuda.h"
#include "runtime/ops/elementwise/elementwise_maps.h"

namespace trireme::ops::cuda {

void accumulate_sum(Stream& stream, const Tensor& total, const Tensor& x) {
  add_fixed_sum<false>(stream, total, x);
}

namespace {

// As wide as the wider of the two dtypes allows.
template <int width, typename T, typename In>
__global__ void add_kernel(T* y, const In* x, const float* bias, const T* residual, RowPacks packs,
                           std::int64_t columns) {
  packs.each([&](std::int64_t row, std::int64_t pack) {
    const std::int64_t column = pack * width;
    const std::int64_t at = row * columns + column;
    const auto in = load_pack<width>(x + at);
    Pack<float, width> sum;
#pragma unroll
    for (int j = 0; j < width; ++j)
      sum[j] = load(in[j]);
    if (bias != nullptr) {
      const auto add = row_floats<(width > 1), width>(bias, column, columns);
#pragma unroll
      for (int j = 0; j < width; ++j)
        sum[j] += add[j];
    }
    if (residual != nullptr) {
      const auto add = load_pack<width>(residual + at);
#pragma unroll
      for (int j = 0; j < width; ++j)
        sum[j] += load(add[j]);
    }
    Pack<T, width> out;
#pragma unroll
    for (int j = 0; j < width; ++j)
      store(out[j], sum[j]);
    store_pack(y + at, out);
  });
}

template <typename T, bool aligned>
struct RowTerms {
  const T* dy;
  std::int64_t columns;

  template <int width>
  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[1][width]) const {
    const auto pack = row_pack<aligned>(dy + row * columns, column, columns);
#pragma unroll
    for (int j = 0; j < width; ++j)
      sums[0][j] += load(pack[j]);
  }
};

}  // namespace

void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias,
                       const Tensor& residual) {
  const std::int64_t columns = y.shape.back();
  visit_compute_dtype(y.dtype, [&](auto type) {
    visit_compute_dtype(x.dtype, [&]<typename In>(In) {
      using T = decltype(type);
      constexpr int widest = std::min(pack_width<T>, pack_width<In>);
      const T* const second = residual.empty() ? nullptr : residual.as<T>();
      const float* const values = bias.empty() ? nullptr : bias.as<float>();
      const bool fits = packs_fit(y.as<T>(), columns, widest) &&
                        packs_fit(x.as<In>(), columns, widest) &&
                        packs_fit(second, columns, widest) &&
                        reinterpret_cast<std::uintptr_t>(values) % pack_bytes == 0;
      with_flag(fits, [&](auto flag) {
        constexpr int width = flag ? widest : 1;
        const RowPacks packs(y.shape.rows(), columns, width);
        launch(stream, grid_for(stream, packs.count(), 256), add_kernel<width, T, In>, y.as<T>(),
               x.as<In>(), values, second, packs, columns);
      });
    });
  });
}

void column_sums(Stream& stream, const Tensor& db, const Tensor& dy) {
  visit_compute_dtype(dy.dtype, [&]<typename T>(T) {
    const std::int64_t columns = dy.shape.back();
    with_flag(rows_align<T>(dy.as<T>(), columns), [&](auto aligned) {
      add_column_sums<1, pack_width<T>>(stream, {{db.as<float>()}},
                                        RowTerms<T, aligned>{dy.as<T>(), columns}, dy.shape.rows(),
                                        columns);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, accumulate_sum, add_bias_residual, column_sums);

}  // namespace trireme::ops::cuda
