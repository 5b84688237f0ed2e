// SPDX-License-Identifier: Apache-2.0
#include "models/layers/fp8_matmuls.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr std::int64_t alignment = 256;  // the fastest for tensor cores

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

Shape transpose_of(const Shape& matrix) {
  return {matrix[1], matrix[0]};
}

ops::Fp8Matrix rows_of(const RowRun& run, const ops::Fp8Matrix& matrix) {
  return {run.of(matrix.codes), matrix.scale};
}

}  // namespace

Fp8Matmuls::Fp8Matmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows,
                       const Shape& weight, std::int64_t blocks)
    : kind_(kind),
      weight_(weight),
      rows_(rows),
      keeps_weights_(blueprint.options().keep_fp8_weights),
      together_(blueprint.options().training && !blueprint.options().split_backward &&
                blueprint.options().adapters.rank == 0) {
  const std::int64_t outputs = weight[0], inputs = weight[1];
  // First operands: x (N, I), dy (N, O), one of them transposed; second ones: w (O, I) and x.
  second_ = static_cast<std::size_t>(aligned(rows * std::max(outputs, inputs)));
  scale_ = second_ + static_cast<std::size_t>(aligned(std::max(weight.count(), rows * inputs)));
  workspace_ = blueprint.workspace(workspace_bytes());
  amax_ = blueprint.scratch({blocks}, DType::u32);
  x_scales_ = blueprint.keep({shares_x() ? 1 : blocks}, DType::f32);
  if (keeps_weights_) {
    weights_ = blueprint.derived({blocks * 2 * aligned(weight.count())}, DType::u8);
    weight_scales_ = blueprint.derived({blocks}, DType::f32);
  } else {
    weight_scales_ = blueprint.keep({blocks}, DType::f32);
  }
  if (!together_) return;
  const std::int64_t gradients = shares_x() ? blocks : 1;
  later_ = blueprint.scratch({gradients * aligned(rows * outputs)}, DType::u8);
  later_scales_ = blueprint.scratch({gradients}, DType::f32);
}

void Fp8Matmuls::forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
                         const Tensor& w, const Tensor& bias, const Tensor& residual,
                         const Tensor& x_amax, const RowRun& run) const {
  const bool first = run.index == 0;
  const Shape x_shape{rows_, weight_[1]};
  const ops::Fp8Operand x_codes{
      .codes = in_workspace(context, Place::first, DType::f8e4m3, x_shape),
      .transposed = {},
      .scale = scale_at(context, x_scales_, shares_x() ? 0 : b)};
  const ops::Fp8Matrix x_rows = rows_of(run, x_codes.straight());
  if (first && (b == 0 || !shares_x())) ops::quantize_fp8(context.stream, x_codes, x, x_amax);
  if (keeps_weights_) {
    const ops::Fp8Operand kept = kept_weight(context, b);
    if (first && context.weights_changed) ops::quantize_fp8(context.stream, kept, w);
    ops::linear_fp8(context.stream, y, x_rows, kept.straight(), bias, residual);
    return;
  }
  const ops::Fp8Operand w_codes{
      .codes = in_workspace(context, Place::second, DType::f8e4m3, weight_),
      .transposed = {},
      .scale = scale_at(context, weight_scales_, b)};
  if (first) ops::quantize_fp8(context.stream, w_codes, w);
  ops::linear_fp8(context.stream, y, x_rows, w_codes.straight(), bias, residual);
}

void Fp8Matmuls::backward_input(const Context& context, std::int64_t b, const Tensor& dx,
                                const Tensor& dy, const Tensor& w, const Tensor& dy_amax,
                                const RowRun& run) const {
  const bool first = run.index == 0;
  if (first && together_ && kind_ == LinearKind::column)
    ops::quantize_fp8(context.stream, gradient(context, b), dy, dy_amax);
  const ops::Fp8Matrix dy_codes =
      together_ ? gradient(context, b).straight()
                : gradient_alone(context, dy, /*transposed=*/false, dy_amax, first);
  const ops::Fp8Matrix dy_rows = rows_of(run, dy_codes);
  if (keeps_weights_) {
    ops::linear_fp8(context.stream, dx, dy_rows, kept_weight(context, b).turned());
    return;
  }
  const ops::Fp8Operand w_codes{
      .codes = {},
      .transposed = in_workspace(context, Place::second, DType::f8e4m3, transpose_of(weight_)),
      .scale = scale_at(context, weight_scales_, b)};
  if (first) ops::encode_fp8(context.stream, w_codes, w);
  ops::linear_fp8(context.stream, dx, dy_rows, w_codes.turned());
}

void Fp8Matmuls::backward_weight(const Context& context, std::int64_t b, const Tensor& dw,
                                 const Tensor& dy, const Tensor& x, const Tensor& dy_amax) const {
  if (together_ && kind_ == LinearKind::row && b == 0)
    ops::quantize_fp8(context.stream, gradient(context, b), dy, dy_amax);
  const ops::Fp8Matrix dy_codes = together_
                                      ? gradient(context, b).turned()
                                      : gradient_alone(context, dy, /*transposed=*/true, dy_amax,
                                                       /*first=*/true);
  const ops::Fp8Operand x_codes{
      .codes = {},
      .transposed = in_workspace(context, Place::second, DType::f8e4m3, {weight_[1], rows_}),
      .scale = scale_at(context, x_scales_, shares_x() ? 0 : b)};
  if (b == 0 || !shares_x()) ops::encode_fp8(context.stream, x_codes, x);
  ops::linear_fp8(context.stream, dw, dy_codes, x_codes.turned(), {}, dw);
}

Tensor Fp8Matmuls::in_workspace(const Context& context, Place place, DType format,
                                const Shape& shape) const {
  return {context(workspace_).data + (place == Place::first ? 0 : second_), format, shape};
}

Tensor Fp8Matmuls::scale_at(const Context& context, const Activation& scales,
                            std::int64_t i) const {
  return context(scales).range(i, 1);
}

ops::Fp8Operand Fp8Matmuls::kept_weight(const Context& context, std::int64_t b) const {
  const std::int64_t bytes = aligned(weight_.count());
  std::byte* const codes = context(weights_).data + 2 * b * bytes;
  return {.codes = {codes, DType::f8e4m3, weight_},
          .transposed = {codes + bytes, DType::f8e4m3, transpose_of(weight_)},
          .scale = scale_at(context, weight_scales_, b)};
}

ops::Fp8Matrix Fp8Matmuls::gradient_alone(const Context& context, const Tensor& dy, bool transposed,
                                          const Tensor& amax, bool first) const {
  const Shape straight{rows_, weight_[0]};
  const Tensor codes = in_workspace(context, Place::first, DType::f8e5m2,
                                    transposed ? transpose_of(straight) : straight);
  const Tensor scale{context(workspace_).data + scale_, DType::f32, Shape{1}};
  if (first)
    ops::quantize_fp8(context.stream,
                      {transposed ? Tensor{} : codes, transposed ? codes : Tensor{}, scale}, dy,
                      amax);
  return {codes, scale};
}

ops::Fp8Operand Fp8Matmuls::gradient(const Context& context, std::int64_t b) const {
  const Shape straight{rows_, weight_[0]}, turned = transpose_of(straight);
  const std::int64_t i = shares_x() ? b : 0;
  std::byte* const later = context(later_).data + i * aligned(straight.count());
  std::byte* const now = context(workspace_).data;
  return {.codes = {shares_x() ? now : later, DType::f8e5m2, straight},
          .transposed = {shares_x() ? later : now, DType::f8e5m2, turned},
          .scale = scale_at(context, later_scales_, i)};
}

}  // namespace trireme
