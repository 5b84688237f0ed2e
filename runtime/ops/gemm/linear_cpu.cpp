// SPDX-License-Identifier: Apache-2.0
// Chunk sizes are constants, never measured at run time: the same call gives the same bits.
#include "runtime/ops/gemm/linear.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/gemm/linear_rows_cpu.h"
#include "runtime/ops/gemm/matmul_cpu.h"
#include "runtime/ops/gemm/split_matmul_cpu.h"

namespace trireme::ops::cpu {
namespace {

// N rows of O outputs and I inputs.
struct Sizes {
  std::int64_t rows;
  std::int64_t outputs;
  std::int64_t inputs;

  [[nodiscard]] bool empty() const { return rows == 0 || outputs == 0 || inputs == 0; }
};

// A row chunk of a matmul and its operands fit the outer caches.
constexpr std::int64_t chunk_rows = 512;
// Outputs processed at a time if whole rows would need unbounded scratch (vocabularies).
constexpr std::int64_t chunk_outputs = 2048;

std::size_t as_size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

void forward(const Sizes& n, float* y, const float* x, const float* w, const float* bias,
             const float* residual) {
  if (multiplies_in_parts()) {
    split_matmul(n.rows, n.outputs, n.inputs, {x, n.inputs}, {w, n.inputs, Transpose::yes}, false,
                 y, AddBiasResidual{bias, residual});
    return;
  }
  const bool plain = bias == nullptr && residual == nullptr;
  const std::int64_t chunk = plain ? n.rows : chunk_rows;
  for (std::int64_t first = 0; first < n.rows; first += chunk) {
    const std::int64_t rows = std::min(chunk, n.rows - first);
    float* const out = y + first * n.outputs;
    matmul(rows, n.outputs, n.inputs, {x + first * n.inputs, n.inputs},
           {w, n.inputs, Transpose::yes}, 0.0F, out, n.outputs);
    if (plain) continue;
    finish_rows(out, n.outputs, out, n.outputs, bias,
                residual == nullptr ? nullptr : residual + first * n.outputs, n.outputs, rows,
                n.outputs);
  }
}

// 16-bit types without native arithmetic: chunks are widened, multiplied in f32 and rounded once.
template <typename T>
void forward(const Sizes& n, T* y, const T* x, const T* w, const float* bias, const T* residual) {
  const std::int64_t stride = padded_stride(n.inputs);
  const std::int64_t w_rows = std::min(chunk_outputs, n.outputs);
  const std::int64_t x_rows = std::min(chunk_rows, n.rows);
  static thread_local ScratchBlock block;
  float* const wide_w = block.floats(as_size((w_rows + x_rows) * stride + x_rows * w_rows));
  float* const wide_x = wide_w + w_rows * stride;
  float* const product = wide_x + x_rows * stride;
  for (std::int64_t o = 0; o < n.outputs; o += chunk_outputs) {
    const std::int64_t outputs = std::min(chunk_outputs, n.outputs - o);
    copy_rows(wide_w, stride, w + o * n.inputs, n.inputs, outputs, n.inputs);
    for (std::int64_t first = 0; first < n.rows; first += chunk_rows) {
      const std::int64_t rows = std::min(chunk_rows, n.rows - first);
      copy_rows(wide_x, stride, x + first * n.inputs, n.inputs, rows, n.inputs);
      matmul(rows, outputs, n.inputs, {wide_x, stride}, {wide_w, stride, Transpose::yes}, 0.0F,
             product, outputs);
      const std::int64_t at = first * n.outputs + o;
      finish_rows(y + at, n.outputs, product, outputs, bias == nullptr ? nullptr : bias + o,
                  residual == nullptr ? nullptr : residual + at, n.outputs, rows, outputs);
    }
  }
}

void backward_input(const Sizes& n, float* dx, const float* dy, const float* w, bool accumulate) {
  if (multiplies_in_parts()) {
    split_matmul(n.rows, n.inputs, n.outputs, {dy, n.outputs}, {w, n.inputs}, accumulate, dx,
                 nothing_more);
    return;
  }
  MatrixView weights{w, n.inputs};
  // Measured: of widths between 256 and 3072 only 256 gains (6 to 10 %), 512 a little.
  if (n.inputs % 256 == 0 && n.inputs <= 512) {
    static thread_local ScratchBlock block;
    const std::int64_t stride = padded_stride(n.inputs);
    float* const padded = block.floats(as_size(n.outputs * stride));
    copy_rows(padded, stride, w, n.inputs, n.outputs, n.inputs);
    weights = {padded, stride};
  }
  matmul(n.rows, n.inputs, n.outputs, {dy, n.outputs}, weights, accumulate ? 1.0F : 0.0F, dx,
         n.inputs);
}

template <typename T>
void backward_input(const Sizes& n, T* dx, const T* dy, const T* w, bool accumulate) {
  const std::int64_t w_stride = padded_stride(n.inputs);
  const std::int64_t w_rows = std::min(chunk_outputs, n.outputs);
  const std::int64_t dy_stride = padded_stride(w_rows);
  const std::int64_t dy_rows = std::min(chunk_rows, n.rows);
  static thread_local ScratchBlock block;
  float* const wide_w =
      block.floats(as_size(w_rows * w_stride + dy_rows * dy_stride + dy_rows * n.inputs));
  float* const wide_dy = wide_w + w_rows * w_stride;
  float* const product = wide_dy + dy_rows * dy_stride;
  const bool one_chunk = n.outputs <= chunk_outputs;
  if (one_chunk) copy_rows(wide_w, w_stride, w, n.inputs, n.outputs, n.inputs);
  for (std::int64_t first = 0; first < n.rows; first += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, n.rows - first);
    for (std::int64_t o = 0; o < n.outputs; o += chunk_outputs) {
      const std::int64_t outputs = std::min(chunk_outputs, n.outputs - o);
      if (!one_chunk) copy_rows(wide_w, w_stride, w + o * n.inputs, n.inputs, outputs, n.inputs);
      copy_rows(wide_dy, dy_stride, dy + first * n.outputs + o, n.outputs, rows, outputs);
      matmul(rows, n.inputs, outputs, {wide_dy, dy_stride}, {wide_w, w_stride},
             o == 0 ? 0.0F : 1.0F, product, n.inputs);
    }
    T* const out = dx + first * n.inputs;
    finish_rows(out, n.inputs, product, n.inputs, nullptr, accumulate ? out : nullptr, n.inputs,
                rows, n.inputs);
  }
}

template <typename T>
void backward_weight(const Sizes& n, float* dw, float* db, const T* dy, const T* x) {
  const std::int64_t x_stride = padded_stride(n.inputs);
  const std::int64_t dy_columns = std::min(chunk_outputs, n.outputs);
  const std::int64_t dy_stride = padded_stride(dy_columns);
  const std::int64_t chunk = std::min(chunk_reduction, n.rows);
  static thread_local ScratchBlock block;
  float* const wide_x = block.floats(as_size(chunk * (x_stride + dy_stride) + dy_columns));
  float* const wide_dy = wide_x + chunk * x_stride;
  float* const chunk_sum = wide_dy + chunk * dy_stride;
  for (std::int64_t first = 0; first < n.rows; first += chunk) {
    const std::int64_t rows = std::min(chunk, n.rows - first);
    copy_rows(wide_x, x_stride, x + first * n.inputs, n.inputs, rows, n.inputs);
    for (std::int64_t o = 0; o < n.outputs; o += chunk_outputs) {
      const std::int64_t outputs = std::min(chunk_outputs, n.outputs - o);
      copy_rows(wide_dy, dy_stride, dy + first * n.outputs + o, n.outputs, rows, outputs);
      if (db != nullptr) add_chunk_sums(db + o, chunk_sum, wide_dy, dy_stride, rows, outputs);
      matmul(outputs, n.inputs, rows, {wide_dy, dy_stride, Transpose::yes}, {wide_x, x_stride},
             1.0F, dw + o * n.inputs, n.inputs);
    }
  }
}

// The same without copying rows, if a transposed dy is read at full speed.
void whole_backward_weight(DType dtype, const Sizes& n, float* dw, const void* dy, const void* x) {
  if (dtype != DType::f32 || !multiplies_in_parts()) {
    native_backward_weight(dtype, n.rows, n.outputs, n.inputs, dw, dy, x);
    return;
  }
  split_matmul(n.outputs, n.inputs, n.rows,
               {static_cast<const float*>(dy), n.outputs, Transpose::yes},
               {static_cast<const float*>(x), n.inputs}, true, dw, nothing_more);
}

bool use_native(const Stream& stream, DType dtype) {
  return dtype == DType::bf16 && stream.device().has_native_bf16();
}

}  // namespace

void linear_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias, const Tensor& residual) {
  const Sizes sizes{x.shape.rows(), w.shape[0], w.shape[1]};
  if (sizes.empty()) return;
  const float* const add = bias.empty() ? nullptr : bias.as<float>();
  if (use_native(stream, w.dtype)) {
    enqueue(stream, [sizes, y = y.data, x = x.data, w = w.data, add, residual = residual.data] {
      native_forward(DType::bf16, sizes.rows, sizes.outputs, sizes.inputs, y, x, w, add, residual);
    });
    return;
  }
  visit_compute_dtype(w.dtype, [&]<typename T>(T) {
    const T* const second = residual.empty() ? nullptr : residual.as<T>();
    enqueue(stream, [sizes, y = y.as<T>(), x = x.as<T>(), w = w.as<T>(), add, second] {
      forward(sizes, y, x, w, add, second);
    });
  });
}

void linear_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                           bool accumulate) {
  const Sizes sizes{dx.shape.rows(), w.shape[0], w.shape[1]};
  if (sizes.empty()) return;
  if (use_native(stream, w.dtype)) {
    enqueue(stream, [sizes, dx = dx.data, dy = dy.data, w = w.data, accumulate] {
      native_backward_input(DType::bf16, sizes.rows, sizes.outputs, sizes.inputs, dx, dy, w,
                            accumulate);
    });
    return;
  }
  visit_compute_dtype(w.dtype, [&]<typename T>(T) {
    enqueue(stream, [sizes, dx = dx.as<T>(), dy = dy.as<T>(), w = w.as<T>(), accumulate] {
      backward_input(sizes, dx, dy, w, accumulate);
    });
  });
}

void linear_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                            const Tensor& x) {
  const Sizes sizes{x.shape.rows(), dw.shape[0], dw.shape[1]};
  if (sizes.empty()) return;
  float* const bias_gradient = db.empty() ? nullptr : db.as<float>();
  const bool native =
      use_native(stream, x.dtype) || (x.dtype == DType::f32 && multiplies_transposed_well());
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [sizes, dw = dw.as<float>(), bias_gradient, dy = dy.as<T>(), x = x.as<T>(),
                     native, dtype = x.dtype] {
      if (!native) {
        backward_weight(sizes, dw, bias_gradient, dy, x);
        return;
      }
      whole_backward_weight(dtype, sizes, dw, dy, x);
      if (bias_gradient != nullptr) {
        add_column_sums(bias_gradient, dy, sizes.rows, sizes.outputs);
      }
    });
  });
}

void linear_gelu_forward(Stream& stream, const Tensor& y, const Tensor& pre, const Tensor& x,
                         const Tensor& w, const Tensor& bias) {
  ops::linear_forward(stream, pre, x, w, bias);
  ops::activation_forward(stream, y, pre, ActivationKind::gelu_tanh);
}

void linear_gelu_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const Tensor& pre) {
  ops::linear_backward_input(stream, dx, dy, w);
  ops::activation_backward(stream, dx, dx, pre, ActivationKind::gelu_tanh);
}

}  // namespace trireme::ops::cpu
