// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/copy_boxes.h"

namespace trireme {

// The weight of a linear layer with an adapter: (outputs, inputs), split over the tensor blocks
// along `axis`, as in ParamSpec.
struct AdaptedWeight {
  std::int64_t outputs = 0, inputs = 0;
  int axis = 0, parts = 1, lead = 1;
  bool fused = false;
  Shape samples{};          // (B, T) rows of x
  std::int64_t chunks = 1;  // runs in which rows may come
  std::size_t held = 0;     // bytes of workspace that products beside it hold
  // With axis 0: only some outputs of a larger weight, in each block behind `before` others of its
  // `width`; 0: all outputs.
  std::int64_t before = 0, width = 0;
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
// from forward to backward. Dropout of x draws a mask by the sample, position and feature.
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

 private:
  // s x A^T and s dy B, (rows, rank), in the workspace.
  [[nodiscard]] Tensor inner(const Context& context, const BlockedRows& x, std::int64_t b) const;
  [[nodiscard]] Tensor inner_gradient(const Context& context, const Tensor& dy,
                                      std::int64_t b) const;
  [[nodiscard]] bool drops(const Context& context) const {
    return context.training && dropout_ > 0;
  }
  // Block b's rows of x as A reads them: in the workspace if some are dropped.
  [[nodiscard]] Tensor read(const Context& context, const BlockedRows& x, std::int64_t b) const;
  // Masks the rows `run` of block b.
  void mask(const Context& context, const Tensor& to, const Tensor& from, const RowRun& run,
            std::int64_t b) const;
  // Block b's outputs of y or dy: adjacent, or copied to the workspace.
  [[nodiscard]] Tensor outputs(const Context& context, const BlockedRows& y, std::int64_t b) const;
  [[nodiscard]] bool is_part() const { return width_ != b_[0]; }
  [[nodiscard]] Tensor in_workspace(const Context& context, std::size_t offset,
                                    const Shape& shape) const;
  [[nodiscard]] Tensor a_block(const Tensor& a, std::int64_t b) const;
  [[nodiscard]] Tensor b_block(const Tensor& factor, std::int64_t b) const;

  bool column_, blocked_;
  std::int64_t blocks_;  // local
  Shape samples_;
  std::int64_t rows_, rank_;
  float scale_, dropout_;
  Shape a_, b_;             // of a block: (rank, inputs), (outputs, rank)
  std::int64_t width_ = 0;  // of a block of y
  ParamId a_id_, b_id_;
  std::uint64_t site_ = 0;
  TensorSplit split_;
  ContextSplit context_;
  // Two of (rows, rank), one of (rows, outputs), and another where outputs are a part, one of
  // (rows, inputs) where inputs are dropped.
  Activation workspace_{};
  std::size_t narrow_bytes_ = 0, wide_bytes_ = 0, part_bytes_ = 0;
  // From y to the workspace and back: of all rows, and of a run.
  std::array<ops::BoxCopy, 2> taken_{}, given_{};
  Activation partial_{};  // (local blocks, ...) f32: gradients of the unsplit factor
};

}  // namespace trireme
