// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "models/layers/linear_matmuls.h"
#include "models/layers/low_rank.h"
#include "models/layers/partial_sum.h"

namespace trireme {

struct ColumnOptions {
  std::int64_t outputs = 0;
  // The outputs are `parts` concatenated tensors, each of which is split; the first is `lead` times
  // as long as the others.
  int parts = 1;
  int lead = 1;
  bool fused = false;  // ParamSpec::fused
  bool bias = true;
  // Names of the parts that may have adapters of their own.
  std::vector<std::string_view> part_names{};
};

// y = x W^T + b with outputs split over the tensor ranks (column parallel in Megatron-LM): x (B, T,
// C) on every rank, y (local blocks, B, T, outputs / blocks). Each block is a separate matmul, so
// its bits are the same on any number of ranks. One block is a plain linear layer. If the blueprint
// adapts it, its weights are frozen and it has adapters.
class ColumnLinear {
 public:
  // Declares "<name>.weight" (outputs, C), decayed, and "<name>.bias" (outputs).
  ColumnLinear(Blueprint& blueprint, std::string_view name, const ColumnOptions& options, Init init,
               const PartialSum& sum);
  // A head, never in fp8; its weight and optional bias were declared elsewhere. If tied weights are
  // one parameter, the other reader reports the gradient.
  ColumnLinear(Blueprint& blueprint, ParamId weight, std::int64_t outputs, const PartialSum& sum,
               ParamId bias = {})
      : ColumnLinear(blueprint, weight, outputs, sum, /*fp8=*/false) {
    bias_ = bias;
  }

  [[nodiscard]] const Shape& block_shape() const { return block_; }  // (B, T, outputs / blocks)
  // Buffers for the largest magnitudes of x, (1), and of dy, (local blocks), or absent: whoever
  // writes x or dy fills them and passes them on.
  [[nodiscard]] Tensor x_amax(const Context& context) const { return matmul_.x_amax(context); }
  [[nodiscard]] Tensor dy_amax(const Context& context) const { return matmul_.dy_amax(context); }
  void forward(const Context& context, const Tensor& y, const Tensor& x,
               const Tensor& x_amax = {}) const;
  // y = gelu(pre), pre = x W^T + b; not with an adapter. y_amax (local blocks) receives the largest
  // magnitudes of y, if not absent.
  void forward_gelu(const Context& context, const Tensor& y, const Tensor& pre, const Tensor& x,
                    const Tensor& x_amax, const Tensor& y_amax) const;
  // dx receives the local rows. Parameter gradients are accumulated while ranks exchange dx, then
  // reported; with a split backward, backward_weight does that.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& dy_amax = {}) const;
  void backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const;
  [[nodiscard]] bool is_adapted() const { return !adapters_.empty(); }

 private:
  ColumnLinear(Blueprint& blueprint, ParamId weight, std::int64_t outputs, const PartialSum& sum,
               bool fp8);
  void adapt(Blueprint& blueprint, std::string_view name, const ColumnOptions& options);
  [[nodiscard]] Tensor bias_block(const Context& context, std::int64_t b) const;
  void accumulate(const Context& context, const Tensor& dy, const Tensor& x,
                  const Tensor& dy_amax) const;
  // The adapter's gradients; reports all gradients.
  void finish_weights(const Context& context, const Tensor& dy, const Tensor& x) const;

  PartialSum sum_;
  bool blocked_, split_backward_;
  std::int64_t blocks_;  // local
  Shape block_;
  Shape weight_block_;  // (outputs / blocks, C)
  LinearMatmuls matmul_;
  ParamId weight_, bias_;
  std::vector<LowRankAdapter> adapters_;  // of all outputs, or of parts
};

}  // namespace trireme
