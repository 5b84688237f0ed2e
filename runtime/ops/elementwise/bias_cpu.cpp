// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/bias.h"

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/gemm/linear_rows_cpu.h"

namespace trireme::ops::cpu {

void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias,
                       const Tensor& residual) {
  const float* const values = bias.empty() ? nullptr : bias.as<float>();
  visit_compute_dtype(y.dtype, [&](auto type) {
    visit_compute_dtype(x.dtype, [&](auto x_type) {
      using T = decltype(type);
      using In = decltype(x_type);
      const T* const second = residual.empty() ? nullptr : residual.as<T>();
      enqueue(stream, [y = y.as<T>(), x = x.as<In>(), values, second, rows = y.shape.rows(),
                       columns = y.shape.back()] {
        finish_rows(y, columns, x, columns, values, second, columns, rows, columns);
      });
    });
  });
}

void column_sums(Stream& stream, const Tensor& db, const Tensor& dy) {
  visit_compute_dtype(dy.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, [db = db.as<float>(), dy = dy.as<T>(), rows = dy.shape.rows(),
                     columns = dy.shape.back()] { add_column_sums(db, dy, rows, columns); });
  });
}

}  // namespace trireme::ops::cpu
