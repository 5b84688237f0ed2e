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

ops::Fp8Scaling row_scaling(Fp8Recipe recipe) {
  if (recipe == Fp8Recipe::tensor) return ops::Fp8Scaling::tensor;
  return recipe == Fp8Recipe::blockwise ? ops::Fp8Scaling::row_128 : ops::Fp8Scaling::row_32;
}

// Bytes of codes, and of scales per block.
std::int64_t room(const Shape& matrix, ops::Fp8Scaling scaling) {
  const std::int64_t codes = aligned(matrix.count());
  if (scaling == ops::Fp8Scaling::tensor) return codes;
  return codes + aligned(ops::fp8_scale_shape(scaling, matrix).count() *
                         static_cast<std::int64_t>(size_of(ops::fp8_scale_dtype(scaling))));
}

// Of a matrix either way round.
std::int64_t larger_room(const Shape& matrix, ops::Fp8Scaling scaling) {
  return std::max(room(matrix, scaling), room(transpose_of(matrix), scaling));
}

}  // namespace

Fp8Matmuls::Fp8Matmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows,
                       const Shape& weight, std::int64_t blocks)
    : kind_(kind),
      weight_(weight),
      rows_(rows),
      row_scaling_(row_scaling(blueprint.fp8().recipe)),
      weight_scaling_(row_scaling_ == ops::Fp8Scaling::row_128 ? ops::Fp8Scaling::square_128
                                                               : row_scaling_),
      gradient_format_(per_operand() ? DType::f8e5m2 : DType::f8e4m3),
      keeps_weights_(blueprint.fp8().keeps_weights),
      together_(blueprint.options().training && !blueprint.splits_backward() &&
                blueprint.adapters().rank == 0) {
  const Shape x{rows, weight[1]}, dy{rows, weight[0]};
  // First operands: x (N, I), dy (N, O), one of them transposed; second ones: w (O, I) and x.
  const std::int64_t gradient_room = larger_room(dy, row_scaling_);
  const std::int64_t x_room = larger_room(x, row_scaling_);
  const std::int64_t weight_room = larger_room(weight, weight_scaling_);
  second_ = static_cast<std::size_t>(std::max(x_room, gradient_room));
  scale_ = second_ + static_cast<std::size_t>(std::max(weight_room, x_room));
  workspace_ = blueprint.workspace(workspace_bytes());
  if (keeps_weights_) weights_ = blueprint.derived({blocks * 2 * weight_room}, DType::u8);
  const std::int64_t gradients = shares_x() ? blocks : 1;
  if (together_) later_ = blueprint.scratch({gradients * gradient_room}, DType::u8);
  if (!per_operand()) return;
  amax_ = blueprint.scratch({blocks}, DType::u32);
  x_scales_ = blueprint.keep({shares_x() ? 1 : blocks}, DType::f32);
  weight_scales_ = keeps_weights_ ? blueprint.derived({blocks}, DType::f32)
                                  : blueprint.keep({blocks}, DType::f32);
  if (together_) later_scales_ = blueprint.scratch({gradients}, DType::f32);
}

void Fp8Matmuls::forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
                         const Tensor& w, const Tensor& bias, const Tensor& residual,
                         const Tensor& x_amax, const RowRun& run) const {
  const bool first = run.index == 0;
  const ops::Fp8Matrix x_codes =
      codes_of(context, x, DType::f8e4m3, scale_at(context, x_scales_, shares_x() ? 0 : b), x_amax,
               run, /*made=*/b > 0 && shares_x());
  if (keeps_weights_) {
    const ops::Fp8Operand kept = kept_weight(context, b);
    if (first && context.weights_changed) ops::quantize_fp8(context.stream, kept, w);
    ops::linear_fp8(context.stream, y, x_codes, kept.straight, bias, residual);
    return;
  }
  const ops::Fp8Matrix w_codes = matrix_at(workspace(context) + second_, DType::f8e4m3, weight_,
                                           weight_scaling_, scale_at(context, weight_scales_, b));
  if (first) ops::quantize_fp8(context.stream, {.straight = w_codes}, w);
  ops::linear_fp8(context.stream, y, x_codes, w_codes, bias, residual);
}

void Fp8Matmuls::backward_input(const Context& context, std::int64_t b, const Tensor& dx,
                                const Tensor& dy, const Tensor& w, const Tensor& dy_amax,
                                const RowRun& run) const {
  const bool first = run.index == 0;
  const bool by_run = run.count > 1 && !per_operand();
  if (first && together_ && kind_ == LinearKind::column) {
    ops::Fp8Operand both = gradient(context, b);
    if (by_run) both.straight = {};
    ops::quantize_fp8(context.stream, both, dy, dy_amax);
  }
  ops::Fp8Matrix dy_codes;
  if (together_ && !by_run) {
    dy_codes = gradient(context, b).straight;
    dy_codes.codes = run.of(dy_codes.codes);
  } else {
    dy_codes = codes_of(context, dy, gradient_format_, lone_scale(context), dy_amax, run,
                        /*made=*/false);
  }
  if (keeps_weights_) {
    ops::linear_fp8(context.stream, dx, dy_codes, kept_weight(context, b).turned);
    return;
  }
  const ops::Fp8Matrix w_codes =
      matrix_at(workspace(context) + second_, DType::f8e4m3, transpose_of(weight_), weight_scaling_,
                scale_at(context, weight_scales_, b));
  if (first) ops::encode_fp8(context.stream, {.turned = w_codes}, w);
  ops::linear_fp8(context.stream, dx, dy_codes, w_codes);
}

void Fp8Matmuls::backward_weight(const Context& context, std::int64_t b, const Tensor& dw,
                                 const Tensor& dy, const Tensor& x, const Tensor& dy_amax) const {
  if (together_ && kind_ == LinearKind::row && b == 0)
    ops::quantize_fp8(context.stream, gradient(context, b), dy, dy_amax);
  const ops::Fp8Matrix dy_codes =
      together_ ? gradient(context, b).turned : turned_gradient_alone(context, dy, dy_amax);
  const ops::Fp8Matrix x_codes =
      matrix_at(workspace(context) + second_, DType::f8e4m3, {weight_[1], rows_}, row_scaling_,
                scale_at(context, x_scales_, shares_x() ? 0 : b));
  if (b == 0 || !shares_x()) ops::encode_fp8(context.stream, {.turned = x_codes}, x);
  ops::linear_fp8(context.stream, dw, dy_codes, x_codes, {}, dw);
}

ops::Fp8Matrix Fp8Matmuls::codes_of(const Context& context, const Tensor& rows, DType format,
                                    const Tensor& scale, const Tensor& amax, const RowRun& run,
                                    bool made) const {
  const Tensor part = per_operand() ? rows : run.of(rows);
  ops::Fp8Matrix codes = matrix_at(workspace(context), format,
                                   {part.shape.rows(), part.shape.back()}, row_scaling_, scale);
  if (!made && (run.index == 0 || !per_operand()))
    ops::quantize_fp8(context.stream, {.straight = codes}, part, amax);
  if (per_operand()) codes.codes = run.of(codes.codes);
  return codes;
}

ops::Fp8Matrix Fp8Matmuls::matrix_at(std::byte* at, DType format, const Shape& shape,
                                     ops::Fp8Scaling scaling, const Tensor& scale) {
  const Tensor codes{at, format, shape};
  if (scaling == ops::Fp8Scaling::tensor) return {codes, scale, scaling};
  return {codes,
          {at + aligned(shape.count()), ops::fp8_scale_dtype(scaling),
           ops::fp8_scale_shape(scaling, shape)},
          scaling};
}

Tensor Fp8Matmuls::scale_at(const Context& context, const Activation& scales,
                            std::int64_t i) const {
  return per_operand() ? context(scales).range(i, 1) : Tensor{};
}

ops::Fp8Operand Fp8Matmuls::kept_weight(const Context& context, std::int64_t b) const {
  const std::int64_t bytes = larger_room(weight_, weight_scaling_);
  std::byte* const at = context(weights_).data + 2 * b * bytes;
  const Tensor scale = scale_at(context, weight_scales_, b);
  return {matrix_at(at, DType::f8e4m3, weight_, weight_scaling_, scale),
          matrix_at(at + bytes, DType::f8e4m3, transpose_of(weight_), weight_scaling_, scale)};
}

ops::Fp8Matrix Fp8Matmuls::turned_gradient_alone(const Context& context, const Tensor& dy,
                                                 const Tensor& amax) const {
  const ops::Fp8Matrix codes = matrix_at(workspace(context), gradient_format_, {weight_[0], rows_},
                                         row_scaling_, lone_scale(context));
  ops::quantize_fp8(context.stream, {.turned = codes}, dy, amax);
  return codes;
}

ops::Fp8Operand Fp8Matmuls::gradient(const Context& context, std::int64_t b) const {
  const Shape straight{rows_, weight_[0]};
  const std::int64_t i = shares_x() ? b : 0;
  std::byte* const later = context(later_).data + i * larger_room(straight, row_scaling_);
  std::byte* const now = workspace(context);
  const Tensor scale = scale_at(context, later_scales_, i);
  return {matrix_at(shares_x() ? now : later, gradient_format_, straight, row_scaling_, scale),
          matrix_at(shares_x() ? later : now, gradient_format_, transpose_of(straight),
                    row_scaling_, scale)};
}

}  // namespace trireme
