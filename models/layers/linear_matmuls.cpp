// SPDX-License-Identifier: Apache-2.0
#include "models/layers/linear_matmuls.h"

#include <algorithm>

#include "runtime/ops/elementwise/bias.h"
#include "runtime/ops/elementwise/gelu.h"
#include "runtime/ops/gemm/linear.h"

namespace trireme {

LinearMatmuls::LinearMatmuls(Blueprint& blueprint, std::int64_t rows, const Shape& weight, bool fp8)
    : fp8_(fp8) {
  if (!fp8_) return;
  constexpr std::int64_t alignment = 256;  // what tensor cores read fastest
  const auto aligned = [](std::int64_t bytes) {
    return static_cast<std::size_t>((bytes + alignment - 1) / alignment * alignment);
  };
  // First operands: x (N, I), dy (N, O) and its transpose; second ones: w (O, I) and x.
  second_ = aligned(rows * std::max(weight[0], weight[1]));
  scales_ = second_ + aligned(std::max(weight.count(), rows * weight[1]));
  workspace_ = blueprint.workspace(scales_ + 2 * sizeof(float));
}

void LinearMatmuls::forward(const Context& context, const Tensor& y, const Tensor& x,
                            const Tensor& w, const Tensor& bias, const Tensor& residual) const {
  if (!fp8_) {
    ops::linear_forward(context.stream, y, x, w, bias, residual);
    return;
  }
  ops::linear_fp8(context.stream, y, quantize(context, 0, DType::f8e4m3, x),
                  quantize(context, 1, DType::f8e4m3, w), bias, residual);
}

void LinearMatmuls::forward_gelu(const Context& context, const Tensor& y, const Tensor& pre,
                                 const Tensor& x, const Tensor& w, const Tensor& bias) const {
  if (!fp8_) {
    ops::linear_gelu_forward(context.stream, y, pre, x, w, bias);
    return;
  }
  forward(context, pre, x, w, bias);
  ops::gelu_forward(context.stream, y, pre);
}

void LinearMatmuls::backward_input(const Context& context, const Tensor& dx, const Tensor& dy,
                                   const Tensor& w, const Tensor& pre) const {
  if (!fp8_ && pre.empty()) {
    ops::linear_backward_input(context.stream, dx, dy, w);
    return;
  }
  if (!fp8_) {
    ops::linear_gelu_backward_input(context.stream, dx, dy, w, pre);
    return;
  }
  ops::linear_fp8(context.stream, dx, quantize(context, 0, DType::f8e5m2, dy),
                  quantize(context, 1, DType::f8e4m3, w, /*transposed=*/true));
  if (!pre.empty()) ops::gelu_backward(context.stream, dx, dx, pre);
}

void LinearMatmuls::backward_weight(const Context& context, const Tensor& dw, const Tensor& db,
                                    const Tensor& dy, const Tensor& x) const {
  if (!fp8_) {
    ops::linear_backward_weight(context.stream, dw, db, dy, x);
    return;
  }
  ops::linear_fp8(context.stream, dw, quantize(context, 0, DType::f8e5m2, dy, /*transposed=*/true),
                  quantize(context, 1, DType::f8e4m3, x, /*transposed=*/true), {}, dw);
  if (!db.empty()) ops::column_sums(context.stream, db, dy);
}

ops::Fp8Matrix LinearMatmuls::quantize(const Context& context, int operand, DType format,
                                       const Tensor& values, bool transposed) const {
  std::byte* const memory = context(workspace_).data;
  const std::int64_t rows = values.shape.rows(), columns = values.shape.back();
  const auto index = static_cast<std::size_t>(operand);
  const ops::Fp8Matrix q{.codes = {memory + index * second_, format,
                                   transposed ? Shape{columns, rows} : Shape{rows, columns}},
                         .scale = {memory + scales_ + index * sizeof(float), DType::f32, Shape{1}}};
  ops::quantize_fp8(context.stream, q, values, transposed);
  return q;
}

}  // namespace trireme
