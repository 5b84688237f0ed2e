// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/fixed_sum.h"
#include "runtime/ops/common/maps_cpu.h"
#include "runtime/ops/elementwise/elementwise_maps.h"
#include "runtime/ops/gemm/linear_rows_cpu.h"

namespace trireme::ops::cpu {

void accumulate_sum(Stream& stream, const Tensor& total, const Tensor& x) {
  enqueue(stream, [to = total.as<double>(), from = x.as<float>(), n = x.count()] {
    *to += fixed_sum<false>(from, n);
  });
}

void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias,
                       const Tensor& residual) {
  const float* const values = bias.empty() ? nullptr : bias.as<float>();
  visit_compute_dtype(y.dtype, [&](auto type) {
    visit_compute_dtype(x.dtype, [&]<typename In>(In) {
      using T = decltype(type);
      const T* const second = residual.empty() ? nullptr : residual.as<T>();
      enqueue(stream, [y = y.as<T>(), x = x.as<In>(), values, second, rows = y.shape.rows(),
                       columns = y.shape.back()] {
        finish_rows(y, columns, x, columns, values, second, columns, rows, columns);
      });
    });
  });
}

void column_sums(Stream& stream, const Tensor& db, const Tensor& dy) {
  visit_compute_dtype(dy.dtype, [&]<typename T>(T) {
    enqueue(stream, [db = db.as<float>(), dy = dy.as<T>(), rows = dy.shape.rows(),
                     columns = dy.shape.back()] { add_column_sums(db, dy, rows, columns); });
  });
}

}  // namespace trireme::ops::cpu
