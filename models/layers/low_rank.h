// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"

namespace trireme {

// The weight of a linear layer with an adapter: (outputs, inputs), split over the tensor blocks
// along `axis`, as in ParamSpec.
struct AdaptedWeight {
  std::int64_t outputs = 0, inputs = 0;
  int axis = 0, parts = 1, lead = 1;
  std::int64_t rows = 0;  // of a micro-batch, B * T
  std::size_t held = 0;   // bytes of workspace that products beside it hold
};

// A (rows, width) tensor per tensor block, contiguous, or a single one that all blocks share; of
// its rows, a run.
struct BlockedRows {
  Tensor all;
  std::int64_t blocks = 1;
  RowRun run{};

  // (rows of the run, width)
  [[nodiscard]] Tensor at(std::int64_t b, std::int64_t width) const {
    const std::int64_t count = all.count() / (blocks * run.count);
    const std::int64_t first = (blocks == 1 ? 0 : b) * run.count + run.index;
    return all.range(first * count, count).reshaped({count / width, width});
  }
};

// y += s x A^T B^T on top of a frozen linear layer (Hu et al., LoRA, 2021): A (rank, inputs) is
// drawn from +-1 / sqrt(inputs), B (outputs, rank) starts at zero, s = alpha / rank. The factor
// along the split axis is split like the weight; the other is whole on every rank, and its gradient
// is summed over the tensor blocks as a tree, then over the ranks. Products with a factor have the
// same shape for any number of local blocks, so the bits are those of any layout. Keeps nothing
// from forward to backward.
class LowRankAdapter {
 public:
  // Declares "lora_a" and "lora_b" in the current scope.
  LowRankAdapter(Blueprint& blueprint, const AdaptedWeight& weight);

  // Split by outputs: all blocks share x; split by inputs: y has one block or each block's. Both,
  // or dx and dy, hold the same rows.
  void forward(const Context& context, const BlockedRows& y, const BlockedRows& x) const;
  // dx += s dy B A.
  void backward_input(const Context& context, const BlockedRows& dx, const BlockedRows& dy) const;
  // Accumulates and reports both gradients.
  void backward_weight(const Context& context, const BlockedRows& dy, const BlockedRows& x) const;
  [[nodiscard]] double forward_flops() const;

 private:
  // s x A^T and s dy B, (rows, rank), in the workspace.
  [[nodiscard]] Tensor inner(const Context& context, const Tensor& x, std::int64_t b) const;
  [[nodiscard]] Tensor inner_gradient(const Context& context, const Tensor& dy,
                                      std::int64_t b) const;
  [[nodiscard]] Tensor in_workspace(const Context& context, std::size_t offset,
                                    const Shape& shape) const;
  [[nodiscard]] Tensor a_block(const Tensor& a, std::int64_t b) const;
  [[nodiscard]] Tensor b_block(const Tensor& factor, std::int64_t b) const;

  bool column_, blocked_;
  std::int64_t blocks_;  // local
  std::int64_t rows_, rank_;
  float scale_;
  Shape a_, b_;  // of a block: (rank, inputs), (outputs, rank)
  ParamId a_id_, b_id_;
  Activation workspace_{};  // two of (rows, rank), one of (rows, outputs)
  std::size_t narrow_bytes_ = 0;
  Activation partial_{};  // (local blocks, ...) f32: gradients of the unsplit factor
};

}  // namespace trireme
