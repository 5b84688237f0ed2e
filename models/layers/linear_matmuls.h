// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/fp8_matmuls.h"
#include "runtime/nn/layer.h"

namespace trireme {

// The three matmuls of a linear layer of `blocks` weights (O, I), each on N rows: in the compute
// dtype, or with `fp8` in 8-bit floats, in the order that Fp8Matmuls requires.
class LinearMatmuls {
 public:
  // A block's largest magnitudes, (1) u32, for 8-bit floats: of the operand x or dy if its writer
  // has left it, and a buffer for that of GELU's output if wanted.
  struct Amax {
    Tensor operand{}, result{};
  };

  LinearMatmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows, const Shape& weight,
                std::int64_t blocks, bool fp8);

  // Those of Fp8Matmuls, or absent; the writer of x or dy stores its largest magnitudes there.
  [[nodiscard]] Tensor x_amax(const Context& context) const {
    return fp8_ ? fp8_->x_amax(context) : Tensor{};
  }
  [[nodiscard]] Tensor dy_amax(const Context& context) const {
    return fp8_ ? fp8_->dy_amax(context) : Tensor{};
  }
  // Like the ops of ops/linear.h, for block b.
  void forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
               const Tensor& w, const Tensor& bias = {}, const Tensor& residual = {},
               const Tensor& x_amax = {}) const;
  void forward_gelu(const Context& context, std::int64_t b, const Tensor& y, const Tensor& pre,
                    const Tensor& x, const Tensor& w, const Tensor& bias, const Amax& amax) const;
  // `pre`, if given: dx is also propagated through the GELU that produced this layer's input.
  void backward_input(const Context& context, std::int64_t b, const Tensor& dx, const Tensor& dy,
                      const Tensor& w, const Tensor& pre, const Amax& amax) const;
  void backward_weight(const Context& context, std::int64_t b, const Tensor& dw, const Tensor& db,
                       const Tensor& dy, const Tensor& x, const Tensor& dy_amax) const;

 private:
  std::optional<Fp8Matmuls> fp8_;
};

}  // namespace trireme
