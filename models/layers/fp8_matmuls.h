// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"
#include "runtime/nn/layer.h"
#include "runtime/ops/gemm/fp8.h"

namespace trireme {

// How a linear layer is split into tensor blocks, which decides the operand they share.
enum class LinearKind : std::uint8_t {
  column,  // x; dy has a block for each. backward_input comes before backward_weight
  row      // dy; x has a block for each. backward_weight comes before backward_input
};

// The three matmuls of a linear layer of `blocks` weights (O, I), each on N rows, in 8-bit floats.
// Each tensor block is a separate operand, so no block of a scale reaches into two of them: the
// bits do not depend on which rank holds it, and ranks need not exchange maxima. By recipe:
//   tensor      one scale per operand; activations and weights e4m3, gradients e5m2
//   blockwise   activations and gradients 1 x 128 along the summed axis, weights 128 x 128, all
//               e4m3 (DeepSeek-AI, "DeepSeek-V3 technical report", 2024)
//   mxfp8       all 1 x 32 along the summed axis, e4m3 (Mishra et al., "Recipes for pre-training
//               LLMs with MXFP8", 2025)
//
// Reads: if Fp8Build::keeps_weights gives weights their own memory, they are quantised,
// plain and transposed, when Context::weights_changed; otherwise in forward, and again in backward.
// x is quantised in forward, and in backward transposed: making both in forward and keeping the
// second would save 2 of the 6 bytes that quantising x moves per element, and cost 1 byte per
// element of every input in every micro-batch in flight, a fifth of what a GPT block keeps (7 to 32
// bytes per row and unit of width), as long as the block also keeps the 16-bit x. dy is quantised
// for both of its products at once, unless they are separate (split backward) or one is missing
// (frozen weights). With recipe `tensor`, quantising again reuses the scale, and quantising first
// reads x or dy for its largest magnitude, unless its writer has left that in x_amax() or
// dy_amax(); with blocks, one reading gives scales and codes.
class Fp8Matmuls {
 public:
  Fp8Matmuls(Blueprint& blueprint, LinearKind kind, std::int64_t rows, const Shape& weight,
             std::int64_t blocks);

  // u32 buffers for the largest magnitudes of x in a forward and of dy in a backward pass, valid
  // from writing to the product: per block, or (1) for a shared operand. Absent if scales are not
  // per operand.
  [[nodiscard]] Tensor x_amax(const Context& context) const {
    return per_operand() ? context(amax_).range(0, shares_x() ? 1 : amax_.shape[0]) : Tensor{};
  }
  [[nodiscard]] Tensor dy_amax(const Context& context) const {
    return per_operand() ? context(amax_).range(0, shares_x() ? amax_.shape[0] : 1) : Tensor{};
  }

  // The part of workspace that holds codes.
  [[nodiscard]] std::size_t workspace_bytes() const { return scale_ + sizeof(float); }
  // For block b; call it for all blocks in order, with no other use of workspace_bytes() in
  // between. Operands as in ops/linear.h, plus the largest magnitude, (1) u32, of x or dy if it is
  // known. y, or dx, has the rows `run`, call by call in order. The first call makes the codes of
  // the weights and those with one scale; codes with a scale per block are made run by run, because
  // scales of some rows are not contiguous.
  void forward(const Context& context, std::int64_t b, const Tensor& y, const Tensor& x,
               const Tensor& w, const Tensor& bias, const Tensor& residual, const Tensor& x_amax,
               const RowRun& run) const;
  void backward_input(const Context& context, std::int64_t b, const Tensor& dx, const Tensor& dy,
                      const Tensor& w, const Tensor& dy_amax, const RowRun& run) const;
  void backward_weight(const Context& context, std::int64_t b, const Tensor& dw, const Tensor& dy,
                       const Tensor& x, const Tensor& dy_amax) const;

 private:
  // Codes at `at`, followed by their scales unless those are `scale`, of the operand.
  [[nodiscard]] static ops::Fp8Matrix matrix_at(std::byte* at, DType format, const Shape& shape,
                                                ops::Fp8Scaling scaling, const Tensor& scale);
  [[nodiscard]] Tensor scale_at(const Context& context, const Activation& scales,
                                std::int64_t i) const;
  // The first of two operands with codes in workspace; the other one is at `second_`.
  [[nodiscard]] std::byte* workspace(const Context& context) const {
    return context(workspace_).data;
  }
  // w and w^T, if kept.
  [[nodiscard]] ops::Fp8Operand kept_weight(const Context& context, std::int64_t b) const;
  // Codes of dy. The first product makes both: its own in workspace, the other's in `later_`.
  [[nodiscard]] ops::Fp8Operand gradient(const Context& context, std::int64_t b) const;
  // Codes of the rows `run` of `rows` in workspace: of all rows in its first call, if they share a
  // scale. Nothing is made if `made`.
  [[nodiscard]] ops::Fp8Matrix codes_of(const Context& context, const Tensor& rows, DType format,
                                        const Tensor& scale, const Tensor& amax, const RowRun& run,
                                        bool made) const;
  // Codes of dy, transposed, made for a single product.
  [[nodiscard]] ops::Fp8Matrix turned_gradient_alone(const Context& context, const Tensor& dy,
                                                     const Tensor& amax) const;
  [[nodiscard]] bool shares_x() const { return kind_ == LinearKind::column; }
  [[nodiscard]] bool per_operand() const { return row_scaling_ == ops::Fp8Scaling::tensor; }
  // Of dy made for a single product.
  [[nodiscard]] Tensor lone_scale(const Context& context) const {
    return {workspace(context) + scale_, DType::f32, Shape{1}};
  }

  LinearKind kind_;
  Shape weight_;
  std::int64_t rows_;
  ops::Fp8Scaling row_scaling_, weight_scaling_;  // of x and dy, and of w
  DType gradient_format_;
  bool keeps_weights_, together_;  // together: dy is quantised once for both products
  Activation workspace_{};
  std::size_t second_ = 0, scale_ = 0;  // offsets of the second operand and of a scale in it
  Activation weights_{};                // (blocks) codes and scales of w and w^T
  Activation later_{};                  // of dy
  // Scales per operand: (blocks), x_scales_ (1) if they share x.
  Activation weight_scales_{}, x_scales_{}, later_scales_{};
  Activation amax_{};
};

}  // namespace trireme
