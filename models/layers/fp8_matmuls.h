// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"
#include "runtime/ops/gemm/fp8.h"

namespace trireme {

// How a linear layer is split into tensor blocks, which decides the operand they share.
enum class LinearKind : std::uint8_t {
  column,  // x; dy has a block for each. backward_input comes before backward_weight
  row      // dy; x has a block for each. backward_weight comes before backward_input
};

// The three matmuls of a linear layer of `blocks` weights (O, I), each on N rows, in 8-bit floats.
// One scale per operand. Each tensor block is a separate operand, so the bits do not depend on
// which rank holds it, and ranks need not exchange maxima.
//
// Reads: if BuildOptions::keep_fp8_weights gives weights their own memory, they are quantised,
// plain and transposed, when Context::weights_changed; otherwise in forward, and encoded again with
// the same scale in backward. x is quantised in forward and encoded transposed with the same scale
// in backward. dy is quantised for both of its products at once, unless they are separate (split
// backward) or one is missing (frozen weights). Quantising x or dy first reads it for its largest
// magnitude, unless its writer has left that in x_amax() or dy_amax().
class Fp8Matmuls {
 public:
  Fp8Matmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows, const Shape& weight,
             std::int64_t blocks);

  // u32 buffers for the largest magnitudes of x in a forward and of dy in a backward pass, valid
  // from writing to the product: per block, or (1) for a shared operand.
  [[nodiscard]] Tensor x_amax(const Context& context) const {
    return context(amax_).range(0, shares_x() ? 1 : amax_.shape[0]);
  }
  [[nodiscard]] Tensor dy_amax(const Context& context) const {
    return context(amax_).range(0, shares_x() ? amax_.shape[0] : 1);
  }

  // The part of workspace that holds codes.
  [[nodiscard]] std::size_t workspace_bytes() const { return scale_ + sizeof(float); }
  // For block b; call it for all blocks in order, with no other use of workspace_bytes() in
  // between. Operands as in ops/linear.h, plus the largest magnitude, (1) u32, of x or dy if it is
  // known. y, or dx, has the rows `run`, call by call in order; the first one makes all codes.
  void forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
               const Tensor& w, const Tensor& bias, const Tensor& residual, const Tensor& x_amax,
               const RowRun& run) const;
  void backward_input(const Context& context, std::int64_t b, const Tensor& dx, const Tensor& dy,
                      const Tensor& w, const Tensor& dy_amax, const RowRun& run) const;
  void backward_weight(const Context& context, std::int64_t b, const Tensor& dw, const Tensor& dy,
                       const Tensor& x, const Tensor& dy_amax) const;

 private:
  // Which of the two operands with codes in workspace.
  enum class Place : std::uint8_t { first, second };
  [[nodiscard]] Tensor in_workspace(const Context& context, Place place, DType format,
                                    const Shape& shape) const;
  [[nodiscard]] Tensor scale_at(const Context& context, const Activation& scales,
                                std::int64_t i) const;
  // w and w^T, if kept.
  [[nodiscard]] ops::Fp8Operand kept_weight(const Context& context, std::int64_t b) const;
  // Codes of dy. The first product makes both: its own in workspace, the other's in `later_`.
  [[nodiscard]] ops::Fp8Operand gradient(const Context& context, std::int64_t b) const;
  // Codes of dy made for a single product, by its first call.
  [[nodiscard]] ops::Fp8Matrix gradient_alone(const Context& context, const Tensor& dy,
                                              bool transposed, const Tensor& amax,
                                              bool first) const;
  [[nodiscard]] bool shares_x() const { return kind_ == LinearKind::column; }

  LinearKind kind_;
  Shape weight_;
  std::int64_t rows_;
  bool keeps_weights_, together_;  // together: dy is quantised once for both products
  Activation workspace_{};
  std::size_t second_ = 0, scale_ = 0;       // offsets of the second operand and of a scale in it
  Activation weights_{};                     // (blocks, 2, O * I) codes
  Activation weight_scales_{}, x_scales_{};  // (blocks), x_scales_ (1) if they share x
  Activation later_{}, later_scales_{};      // of dy
  Activation amax_;
};

}  // namespace trireme
