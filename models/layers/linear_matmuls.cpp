// SPDX-License-Identifier: Apache-2.0
#include "models/layers/linear_matmuls.h"

#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/linear.h"

namespace trireme {

LinearMatmuls::LinearMatmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows,
                             const Shape& weight, std::int64_t blocks, bool fp8) {
  if (fp8) fp8_.emplace(blueprint, kind, rows, weight, blocks);
}

void LinearMatmuls::forward(const Context& context, std::int64_t b, const Tensor& y,
                            const Tensor& x, const Tensor& w, const Tensor& bias,
                            const Tensor& residual, const Tensor& x_amax, const RowRun& run) const {
  if (fp8_) {
    fp8_->forward(context, b, y, x, w, bias, residual, x_amax, run);
  } else {
    ops::linear_forward(context.stream, y, run.of(x), w, bias, residual);
  }
}

void LinearMatmuls::forward_gelu(const Context& context, std::int64_t b, const Tensor& y,
                                 const Tensor& pre, const Tensor& x, const Tensor& w,
                                 const Tensor& bias, const Amax& amax) const {
  if (!fp8_) {
    ops::linear_gelu_forward(context.stream, y, pre, x, w, bias);
    return;
  }
  forward(context, b, pre, x, w, bias, {}, amax.operand);
  ops::activation_forward(context.stream, y, pre, ops::ActivationKind::gelu_tanh, amax.result);
}

void LinearMatmuls::backward_input(const Context& context, std::int64_t b, const Tensor& dx,
                                   const Tensor& dy, const Tensor& w, const Tensor& pre,
                                   const Amax& amax, const RowRun& run) const {
  if (!fp8_ && pre.empty()) {
    ops::linear_backward_input(context.stream, dx, run.of(dy), w);
    return;
  }
  if (!fp8_) {
    ops::linear_gelu_backward_input(context.stream, dx, run.of(dy), w, pre);
    return;
  }
  fp8_->backward_input(context, b, dx, dy, w, amax.operand, run);
  if (!pre.empty())
    ops::activation_backward(context.stream, dx, dx, pre, ops::ActivationKind::gelu_tanh,
                             amax.result);
}

void LinearMatmuls::backward_weight(const Context& context, std::int64_t b, const Tensor& dw,
                                    const Tensor& db, const Tensor& dy, const Tensor& x,
                                    const Tensor& dy_amax) const {
  if (!fp8_) {
    ops::linear_backward_weight(context.stream, dw, db, dy, x);
    return;
  }
  fp8_->backward_weight(context, b, dw, dy, x, dy_amax);
  if (!db.empty()) ops::column_sums(context.stream, db, dy);
}

}  // namespace trireme
