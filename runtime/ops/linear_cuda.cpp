// SPDX-License-Identifier: Apache-2.0
// Row-major matrices are the transposes of what cuBLASLt sees, so y = x w^T is y^T = w x^T there.
#include "runtime/ops/bias.h"
#include "runtime/ops/cublaslt.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/linear.h"

namespace trireme::ops::cuda {
namespace {

// The epilogue adds a bias of the output's dtype; ours is f32.
const void* bias_as(Stream& stream, const Tensor& bias, DType dtype) {
  if (bias.empty()) return nullptr;
  if (dtype == DType::f32) return bias.data;
  const Tensor rounded{
      CudaStream::of(stream).scratch(static_cast<std::size_t>(bias.count()) * size_of(dtype)),
      dtype, bias.shape};
  ops::cast(stream, rounded, bias);
  return rounded.data;
}

}  // namespace

void linear_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias, const Tensor& residual) {
  if (y.count() == 0) return;
  const void* const added = bias_as(stream, bias, y.dtype);
  multiply(stream, {.m = w.shape[0],
                    .n = x.shape.rows(),
                    .k = w.shape[1],
                    .transpose_a = true,
                    .input = w.dtype,
                    .output = y.dtype,
                    .epilogue = added == nullptr ? Epilogue::none : Epilogue::bias,
                    .a = w.data,
                    .b = x.data,
                    .c = residual.data,
                    .d = y.data,
                    .beta = residual.empty() ? 0.0F : 1.0F,
                    .bias = added});
}

void linear_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                           bool accumulate) {
  if (dx.count() == 0) return;
  multiply(stream, {.m = w.shape[1],
                    .n = dy.shape.rows(),
                    .k = w.shape[0],
                    .input = w.dtype,
                    .output = dx.dtype,
                    .a = w.data,
                    .b = dy.data,
                    .c = dx.data,
                    .d = dx.data,
                    .beta = accumulate ? 1.0F : 0.0F});
}

void linear_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                            const Tensor& x) {
  if (!db.empty()) ops::column_sums(stream, db, dy);
  if (dw.count() == 0 || x.count() == 0) return;
  multiply(stream, {.m = dw.shape[1],
                    .n = dw.shape[0],
                    .k = x.shape.rows(),
                    .transpose_b = true,
                    .input = x.dtype,
                    .output = DType::f32,
                    .a = x.data,
                    .b = dy.data,
                    .c = dw.data,
                    .d = dw.data,
                    .beta = 1.0F});
}

}  // namespace trireme::ops::cuda
