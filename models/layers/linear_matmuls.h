// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"
#include "runtime/ops/gemm/fp8.h"

namespace trireme {

// The three matmuls of a linear layer of weights (O, I) on N rows: of the compute dtype, or with
// `fp8` of 8-bit floats. Those are made anew for each product, in workspace, and have
// one scale per operand of a matmul. Tensor blocks are operands of their own, so the bits do not
// depend on which rank holds which block, and no rank asks another for a maximum.
class LinearMatmuls {
 public:
  LinearMatmuls(Blueprint& blueprint, std::int64_t rows, const Shape& weight, bool fp8);

  // As the ops of ops/linear.h.
  // The bias that forward takes.
  [[nodiscard]] Tensor bias(const Context& context, ParamId id) const {
    return fp8_ ? context.params.compute(id) : context.params.added(id);
  }
  void forward(const Context& context, const Tensor& y, const Tensor& x, const Tensor& w,
               const Tensor& bias = {}, const Tensor& residual = {}) const;
  void forward_gelu(const Context& context, const Tensor& y, const Tensor& pre, const Tensor& x,
                    const Tensor& w, const Tensor& bias) const;
  // `pre`, when given: dx is also taken back through the GELU that made this layer's input of it.
  void backward_input(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& w,
                      const Tensor& pre = {}) const;
  void backward_weight(const Context& context, const Tensor& dw, const Tensor& db, const Tensor& dy,
                       const Tensor& x) const;

 private:
  // Codes of `values` (R, C), or of their transpose.
  [[nodiscard]] ops::Fp8Matrix quantize(const Context& context, int operand, DType format,
                                        const Tensor& values, bool transposed = false) const;

  bool fp8_;
  Activation workspace_{};
  std::size_t second_ = 0, scales_ = 0;  // where in it the second operand and the scales lie
};

}  // namespace trireme
