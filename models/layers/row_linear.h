// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/linear_matmuls.h"
#include "models/layers/low_rank.h"
#include "models/layers/partial_sum.h"

namespace trireme {

// y = x W^T + b + residual with inputs split over the tensor ranks (row parallel in Megatron-LM): x
// (local blocks, B, T, inputs / blocks), y the local rows of (B, T, C). The blocks' matmuls are
// summed, then bias and residual are added once. One block is a plain linear layer. If the
// blueprint adapts it, its weights are frozen and it has an adapter.
class RowLinear {
 public:
  // Declares "<name>.weight" (C, inputs), decayed, and with `bias` "<name>.bias" (C), which is not
  // split.
  RowLinear(Blueprint& blueprint, std::string_view name, std::int64_t inputs, bool bias, Init init,
            const PartialSum& sum);

  [[nodiscard]] const Shape& block_shape() const { return block_; }  // (B, T, inputs / blocks)
  // Buffers for the largest magnitudes of x, (local blocks), and of dy, (1), or absent: whoever
  // writes x or dy fills them and passes them on.
  [[nodiscard]] Tensor x_amax(const Context& context) const { return matmul_.x_amax(context); }
  [[nodiscard]] Tensor dy_amax(const Context& context) const { return matmul_.dy_amax(context); }
  // The residual may be absent.
  void forward(const Context& context, const Tensor& y, const Tensor& x, const Tensor& residual,
               const Tensor& x_amax = {}) const;
  // dy holds all rows. Accumulates and reports the parameter gradients; with a split backward,
  // backward_weight does that.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& dy_amax = {}) const {
    backward_gelu(context, dx, dy, x, {}, dy_amax, {});
  }
  // The same if x was gelu(pre): dx is the gradient of pre. dx_amax (local blocks) receives its
  // largest magnitudes, if not absent.
  void backward_gelu(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                     const Tensor& pre, const Tensor& dy_amax, const Tensor& dx_amax) const;
  void backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const;

 private:
  void multiply(const Context& context, const Tensor& x, const Tensor& weight,
                const Tensor& x_amax) const;
  void accumulate(const Context& context, const Tensor& dy, const Tensor& x,
                  const Tensor& dy_amax) const;

  PartialSum sum_;
  bool blocked_, split_backward_;
  std::int64_t blocks_;  // local
  Shape block_;
  Shape weight_block_;  // (C, inputs / blocks)
  LinearMatmuls matmul_;
  ParamId weight_, bias_;
  std::optional<LowRankAdapter> adapter_;
};

}  // namespace trireme
