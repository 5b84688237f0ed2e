// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"
#include "runtime/ops/gemm/fp8.h"

namespace trireme {

// How a linear layer is split into tensor blocks, and so which operand they share.
enum class LinearKind : std::uint8_t {
  column,  // x; dy has a block for each. backward_input comes before backward_weight
  row      // dy; x has a block for each. backward_weight comes before backward_input
};

// The three matmuls of a linear layer of `blocks` weights (O, I), each on N rows, of 8-bit floats.
// One scale per operand: tensor blocks are operands of their own, so the bits do not depend on
// which rank holds which block, and no rank asks another for a maximum.
//
// What is read how often: weights are quantised, as they are and transposed, where
// Context::weights_changed says so, if BuildOptions::keep_fp8_weights gives them memory of their
// own; else in forward, and encoded again, by the same scale, in backward. x is quantised in
// forward and encoded transposed, by the same scale, in backward. dy is quantised for both of its
// products at once, unless they are apart (split backward) or one is missing (frozen weights).
// Quantising x or dy reads it once for its largest magnitude, unless whoever wrote it has left that
// in x_amax() or dy_amax().
class Fp8Matmuls {
 public:
  Fp8Matmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows, const Shape& weight,
             std::int64_t blocks);

  // u32: room for the largest magnitudes of x in a forward pass and of dy in a backward pass, from
  // their being written to the product: of each block, or (1) of the operand that blocks share.
  [[nodiscard]] Tensor x_amax(const Context& context) const {
    return context(amax_).range(0, shares_x() ? 1 : amax_.shape[0]);
  }
  [[nodiscard]] Tensor dy_amax(const Context& context) const {
    return context(amax_).range(0, shares_x() ? amax_.shape[0] : 1);
  }

  // Of block b; all blocks of a pass in order, nothing between them that uses workspace. Operands
  // as in ops/linear.h, and of x or dy the largest magnitude, (1) u32, where it is known.
  void forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
               const Tensor& w, const Tensor& bias, const Tensor& residual,
               const Tensor& x_amax) const;
  void backward_input(const Context& context, std::int64_t b, const Tensor& dx, const Tensor& dy,
                      const Tensor& w, const Tensor& dy_amax) const;
  void backward_weight(const Context& context, std::int64_t b, const Tensor& dw, const Tensor& dy,
                       const Tensor& x, const Tensor& dy_amax) const;

 private:
  // The operand of an activation that has codes in workspace.
  enum class Place : std::uint8_t { first, second };
  [[nodiscard]] Tensor in_workspace(const Context& context, Place place, DType format,
                                    const Shape& shape) const;
  [[nodiscard]] Tensor scale_at(const Context& context, const Activation& scales,
                                std::int64_t i) const;
  // w and w^T where they are kept.
  [[nodiscard]] ops::Fp8Operand kept_weight(const Context& context, std::int64_t b) const;
  // dy's codes, of which the product that comes first makes both: its own in workspace, the other's
  // in `later_`.
  [[nodiscard]] ops::Fp8Operand gradient(const Context& context, std::int64_t b) const;
  // dy's codes for one product, made for that alone.
  [[nodiscard]] ops::Fp8Matrix gradient_alone(const Context& context, const Tensor& dy,
                                              bool transposed, const Tensor& amax) const;
  [[nodiscard]] bool shares_x() const { return kind_ == LinearKind::column; }

  LinearKind kind_;
  Shape weight_;
  std::int64_t rows_;
  bool keeps_weights_, together_;  // together: dy is quantised once for both products
  Activation workspace_{};
  std::size_t second_ = 0, scale_ = 0;       // where in it the second operand and a scale lie
  Activation weights_{};                     // (blocks, 2, O * I) codes
  Activation weight_scales_{}, x_scales_{};  // (blocks), x_scales_ (1) where they share x
  Activation later_{}, later_scales_{};      // of dy
  Activation amax_;
};

}  // namespace trireme
