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
  // Bytes of workspace that must stay between the runs of a block.
  [[nodiscard]] std::size_t held_bytes() const { return fp8_ ? fp8_->workspace_bytes() : 0; }
  // Whether all runs of a block's rows must be multiplied before those of the next.
  [[nodiscard]] bool by_block() const { return fp8_.has_value(); }
  // Like the ops of ops/linear.h, for block b. y, or dx, may be a run of the rows, in order; x, or
  // dy, has all of them.
  void forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
               const Tensor& w, const Tensor& bias = {}, const Tensor& residual = {},
               const Tensor& x_amax = {}, const RowRun& run = {}) const;
  void forward_gelu(const Context& context, std::int64_t b, const Tensor& y, const Tensor& pre,
                    const Tensor& x, const Tensor& w, const Tensor& bias, const Amax& amax) const;
  // `pre`, if given: dx is also propagated through the GELU that produced this layer's input.
  void backward_input(const Context& context, std::int64_t b, const Tensor& dx, const Tensor& dy,
                      const Tensor& w, const Tensor& pre, const Amax& amax,
                      const RowRun& run = {}) const;
  void backward_weight(const Context& context, std::int64_t b, const Tensor& dw, const Tensor& db,
                       const Tensor& dy, const Tensor& x, const Tensor& dy_amax) const;

 private:
  std::optional<Fp8Matmuls> fp8_;
};

}  // namespace trireme
