// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/linear_matmuls.h"
#include "models/layers/low_rank.h"
#include "models/layers/partial_sum.h"

namespace trireme {

struct ColumnOptions {
  std::int64_t outputs = 0;
  // The outputs are `parts` tensors one after another, each of which is split; the first is `lead`
  // times as long as each other.
  int parts = 1;
  int lead = 1;
  bool bias = true;
};

// y = x W^T + b whose outputs are split over the tensor ranks (column parallel in Megatron-LM's
// terms): x (B, T, C) on every rank, y (local blocks, B, T, outputs / blocks). Each block is a
// matmul of its own, so that it has the same bits on any number of ranks. One block is a plain
// linear layer. Where the blueprint adapts it, its weights are frozen and an adapter is beside it.
class ColumnLinear {
 public:
  // Declares "<name>.weight" (outputs, C), decayed, and "<name>.bias" (outputs).
  ColumnLinear(Blueprint& blueprint, std::string_view name, const ColumnOptions& options, Init init,
               const PartialSum& sum);
  // Never in fp8: a head, whose weight, and bias where it has one, were declared elsewhere. Of tied
  // weights that are one parameter, the other reader reports the gradient.
  ColumnLinear(Blueprint& blueprint, ParamId weight, std::int64_t outputs, const PartialSum& sum,
               ParamId bias = {})
      : ColumnLinear(blueprint, weight, outputs, sum, /*fp8=*/false) {
    bias_ = bias;
  }

  [[nodiscard]] const Shape& block_shape() const { return block_; }  // (B, T, outputs / blocks)
  // Room for the largest magnitudes of x, (1), and of dy, (local blocks), or absent: whoever writes
  // them leaves those there, and passes it on.
  [[nodiscard]] Tensor x_amax(const Context& context) const { return matmul_.x_amax(context); }
  [[nodiscard]] Tensor dy_amax(const Context& context) const { return matmul_.dy_amax(context); }
  void forward(const Context& context, const Tensor& y, const Tensor& x,
               const Tensor& x_amax = {}) const;
  // y = gelu(pre), pre = x W^T + b; not of a layer that is adapted. y_amax (local blocks): receives
  // the largest magnitudes of y, where they are wanted.
  void forward_gelu(const Context& context, const Tensor& y, const Tensor& pre, const Tensor& x,
                    const Tensor& x_amax, const Tensor& y_amax) const;
  // dx receives the local rows. The parameter gradients are accumulated while ranks exchange dx,
  // then reported; with a split backward they are left to backward_weight.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& dy_amax = {}) const;
  void backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const;
  [[nodiscard]] double forward_flops() const;
  [[nodiscard]] bool is_adapted() const { return adapter_.has_value(); }

 private:
  ColumnLinear(Blueprint& blueprint, ParamId weight, std::int64_t outputs, const PartialSum& sum,
               bool fp8);
  [[nodiscard]] Tensor bias_block(const Context& context, std::int64_t b) const;
  void accumulate(const Context& context, const Tensor& dy, const Tensor& x,
                  const Tensor& dy_amax) const;
  // The adapter's gradients; reports all.
  void finish_weights(const Context& context, const Tensor& dy, const Tensor& x) const;

  PartialSum sum_;
  bool blocked_, split_backward_;
  std::int64_t blocks_;  // local
  Shape block_;
  Shape weight_block_;  // (outputs / blocks, C)
  LinearMatmuls matmul_;
  ParamId weight_, bias_;
  std::optional<LowRankAdapter> adapter_;
};

}  // namespace trireme
