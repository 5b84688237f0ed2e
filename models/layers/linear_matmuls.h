// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/fp8_matmuls.h"
#include "runtime/nn/layer.h"

namespace trireme {

// The three matmuls of a linear layer of `blocks` weights (O, I), each on N rows: of the compute
// dtype, or with `fp8` of 8-bit floats, in the order that Fp8Matmuls wants.
class LinearMatmuls {
 public:
  LinearMatmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows, const Shape& weight,
                std::int64_t blocks, bool fp8);

  // The bias that forward takes.
  [[nodiscard]] Tensor bias(const Context& context, ParamId id) const {
    return fp8_ ? context.params.compute(id) : context.params.added(id);
  }
  // As the ops of ops/linear.h, of block b.
  void forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
               const Tensor& w, const Tensor& bias = {}, const Tensor& residual = {}) const;
  void forward_gelu(const Context& context, std::int64_t b, const Tensor& y, const Tensor& pre,
                    const Tensor& x, const Tensor& w, const Tensor& bias) const;
  // `pre`, when given: dx is also taken back through the GELU that made this layer's input of it.
  void backward_input(const Context& context, std::int64_t b, const Tensor& dx, const Tensor& dy,
                      const Tensor& w, const Tensor& pre = {}) const;
  void backward_weight(const Context& context, std::int64_t b, const Tensor& dw, const Tensor& db,
                       const Tensor& dy, const Tensor& x) const;

 private:
  std::optional<Fp8Matmuls> fp8_;
};

}  // namespace trireme
