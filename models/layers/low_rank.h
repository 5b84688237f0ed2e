// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/row_split.h"

namespace trireme {

// The weight of a linear layer that an adapter is beside: (outputs, inputs), split over the tensor
// blocks along `axis` (ParamSpec).
struct AdaptedWeight {
  std::int64_t outputs = 0, inputs = 0;
  int axis = 0, parts = 1, lead = 1;
  std::int64_t rows = 0;  // of a micro-batch, B * T
};

// One (rows, width) tensor for every tensor block, or one for each, one behind the other.
struct BlockedRows {
  Tensor all;
  std::int64_t blocks = 1;  // 1: it serves all

  [[nodiscard]] Tensor at(std::int64_t b) const {
    if (blocks == 1) return all;
    const std::int64_t count = all.count() / blocks;
    return all.range(b * count, count);
  }
};

// y += s x A^T B^T beside a linear layer whose own weight does not change (Hu et al., LoRA, 2021):
// A (rank, inputs) is drawn from +-1 / sqrt(inputs), B (outputs, rank) starts at zero, s = alpha /
// rank. The factor along the split axis is split as the weight is, the other is whole on every
// rank; its gradient is summed over the tensor blocks as a tree, then over the ranks. Products with
// a factor are of one shape whatever the number of blocks here is, so the bits are those of any
// layout. Nothing is kept from forward to backward.
class LowRankAdapter {
 public:
  // Declares "lora_a" and "lora_b" in the current scope.
  LowRankAdapter(Blueprint& blueprint, const AdaptedWeight& weight);

  // With column splits x serves all blocks, with row splits y and dy do but for PartialSum's, which
  // are blocked.
  void forward(const Context& context, const BlockedRows& y, const BlockedRows& x) const;
  // dx += s dy B A.
  void backward_input(const Context& context, const BlockedRows& dx, const BlockedRows& dy) const;
  // Accumulates and reports both gradients.
  void backward_weight(const Context& context, const BlockedRows& dy, const BlockedRows& x) const;

 private:
  // s rows factor, (rows, rank), in the workspace.
  [[nodiscard]] Tensor inner(const Context& context, const Tensor& x, std::int64_t b) const;
  [[nodiscard]] Tensor inner_gradient(const Context& context, const Tensor& dy,
                                      std::int64_t b) const;
  [[nodiscard]] Tensor narrow(const Context& context, int which) const;
  [[nodiscard]] Tensor wide(const Context& context, const Tensor& like) const;
  [[nodiscard]] Tensor a_block(const Tensor& a, std::int64_t b) const;
  [[nodiscard]] Tensor b_block(const Tensor& factor, std::int64_t b) const;

  bool column_, blocked_;
  std::int64_t blocks_;  // local
  std::int64_t rows_, rank_;
  float scale_;
  Shape a_, b_;  // of a block: (rank, inputs), (outputs, rank)
  ParamId a_id_, b_id_;
  Activation workspace_{};
  std::size_t narrow_bytes_ = 0;
  Activation partial_{};  // (local blocks, ...) f32: gradients of the factor that is not split
};

}  // namespace trireme
