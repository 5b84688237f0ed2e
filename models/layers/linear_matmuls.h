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
  // Largest magnitudes of a block, (1) u32, which 8-bit floats need: of the operand x or dy, where
  // whoever wrote it has left it, and room for that of what GELU gives, where that is wanted.
  struct Amax {
    Tensor operand{}, result{};
  };

  LinearMatmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows, const Shape& weight,
                std::int64_t blocks, bool fp8);

  // Those of Fp8Matmuls, or absent: who writes x or dy leaves its largest magnitudes there.
  [[nodiscard]] Tensor x_amax(const Context& context) const {
    return fp8_ ? fp8_->x_amax(context) : Tensor{};
  }
  [[nodiscard]] Tensor dy_amax(const Context& context) const {
    return fp8_ ? fp8_->dy_amax(context) : Tensor{};
  }
  // As the ops of ops/linear.h, of block b.
  void forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
               const Tensor& w, const Tensor& bias = {}, const Tensor& residual = {},
               const Tensor& x_amax = {}) const;
  void forward_gelu(const Context& context, std::int64_t b, const Tensor& y, const Tensor& pre,
                    const Tensor& x, const Tensor& w, const Tensor& bias, const Amax& amax) const;
  // `pre`, when given: dx is also taken back through the GELU that made this layer's input of it.
  void backward_input(const Context& context, std::int64_t b, const Tensor& dx, const Tensor& dy,
                      const Tensor& w, const Tensor& pre, const Amax& amax) const;
  void backward_weight(const Context& context, std::int64_t b, const Tensor& dw, const Tensor& db,
                       const Tensor& dy, const Tensor& x, const Tensor& dy_amax) const;

 private:
  std::optional<Fp8Matmuls> fp8_;
};

}  // namespace trireme
