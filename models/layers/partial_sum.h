// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"

namespace trireme {

// Sums the contributions of all tensor blocks to every row of the residual stream: first local
// blocks as a tree, then ranks (see tensor_group.h). The sum stays f32 until it is complete,
// whatever the compute dtype: if it were rounded per rank, its bits would depend on which blocks
// share a rank. TensorSums::rounded allows that, which halves the traffic. Reserves scratch,
// once per layer of the chain; nothing without tensor blocks.
class PartialSum {
 public:
  PartialSum(Blueprint& blueprint, const RowSplit& rows);

  [[nodiscard]] const RowSplit& rows() const { return rows_; }
  [[nodiscard]] std::int64_t chunks() const { return chunks_; }
  // Sums in chunks of rows (TensorSums::chunks): multiply(b, run, block) writes local
  // block b's contribution to the rows `run` to `block` (rows / chunks, C), complete(run, blocks)
  // may add to those of all local blocks; the chunk's sum then starts and overlaps what follows
  // until finish(). `by_block`: all chunks of a block before those of the next.
  template <typename Multiply, typename Complete>
  void start(const Context& context, bool by_block, const Multiply& multiply,
             const Complete& complete) const {
    const Shape chunk{rows_.rows() / chunks_, rows_.whole().back()};
    for (std::int64_t i = 0; i < chunks_ * blocks_; ++i) {
      const std::int64_t b = by_block ? i / chunks_ : i % blocks_;
      const RowRun run{by_block ? i % chunks_ : i / blocks_, chunks_};
      const Tensor all = block_of(context(blocks_out_), run.index, {blocks_, chunk[0], chunk[1]});
      multiply(b, run, block_of(all, b, chunk));
      if (b < blocks_ - 1) continue;
      complete(run, all);
      start(context, run, all);
    }
  }

  // The local rows of the sum: f32, or the compute dtype if sums are rounded.
  [[nodiscard]] Tensor finish(const Context& context) const;

 private:
  void start(const Context& context, const RowRun& run, const Tensor& blocks) const;

  RowSplit rows_;
  std::int64_t blocks_, chunks_;
  // (chunks, local blocks, rows / chunks, C) in the compute dtype.
  Activation blocks_out_{};
  Activation sum_{};  // (B, T, C); may be the first block
};

}  // namespace trireme
