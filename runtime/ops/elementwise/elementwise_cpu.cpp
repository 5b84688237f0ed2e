// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/elementwise.h"

#include <cstring>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/fixed_sum.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/gemm/linear_rows_cpu.h"

namespace trireme::ops::cpu {

// No restrict in these loops: operands may be the very same elements, which `omp simd` permits
// (each iteration reads and writes its own index only).

void add_in_place(Stream& stream, const Tensor& y, const Tensor& x) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = y.as<T>(), from = x.as<T>(), n = y.count()] {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        store(to[i], load(to[i]) + load(from[i]));
    });
  });
}

void scale_in_place(Stream& stream, const Tensor& y, float factor) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = y.as<T>(), factor, n = y.count()] {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i)
        store(to[i], load(to[i]) * factor);
    });
  });
}

void relu_forward(Stream& stream, const Tensor& y, const Tensor& a, const Tensor& b) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const T* second = b.empty() ? nullptr : b.as<T>();
    enqueue(stream, [to = y.as<T>(), first = a.as<T>(), second, n = y.count()] {
      // NaN passes, because hiding it here would only move the failure elsewhere.
      if (second == nullptr) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          const float sum = load(first[i]);
          store(to[i], sum < 0.0F ? 0.0F : sum);
        }
        return;
      }
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float sum = load(first[i]) + load(second[i]);
        store(to[i], sum < 0.0F ? 0.0F : sum);
      }
    });
  });
}

void relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = dx.as<T>(), from = dy.as<T>(), out = y.as<T>(), n = dx.count()] {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float passed = load(from[i]);  // always: a conditional load would not vectorise
        store(to[i], load(out[i]) > 0.0F ? passed : 0.0F);
      }
    });
  });
}

void cast(Stream& stream, const Tensor& y, const Tensor& x) {
  if (y.dtype == x.dtype) {
    enqueue(stream,
            [to = y.data, from = x.data, bytes = y.bytes()] { std::memcpy(to, from, bytes); });
    return;
  }
  visit_compute_dtype(y.dtype, [&](auto to_type) {
    visit_compute_dtype(x.dtype, [&]<typename From>(From) {
      using To = decltype(to_type);
      enqueue(stream, [to = y.as<To>(), from = x.as<From>(), n = y.count()] {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
          store(to[i], load(from[i]));
      });
    });
  });
}

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
