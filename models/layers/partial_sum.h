// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/row_split.h"

namespace trireme {

// The sum, over all tensor blocks, of what each of them contributes to every row of the residual
// stream. Blocks here are added as a tree, then ranks are (see tensor_group.h). The sum stays f32
// until it is complete, whatever the compute dtype: rounded per rank, its bits would depend on
// which blocks share one. Where they may (BuildOptions::rounded_sums) it is, which halves what is
// sent. Reserves scratch, of which one layer of the chain needs one; nothing
// without tensor blocks.
class PartialSum {
 public:
  PartialSum(Blueprint& blueprint, const RowSplit& rows);

  [[nodiscard]] const RowSplit& rows() const { return rows_; }
  // Where this rank's block b leaves its contribution, (B, T, C).
  [[nodiscard]] Tensor block(const Context& context, std::int64_t b) const;
  // Once all blocks did. Work enqueued until finish() overlaps with the communication.
  void start(const Context& context) const;

  // The same in parts of the rows (BuildOptions::tensor_chunks), 0 to chunks() - 1 in this order:
  // of each all blocks (rows / chunks, C), then its start. One finish() after the last.
  [[nodiscard]] std::int64_t chunks() const { return chunks_; }
  [[nodiscard]] Shape chunk_of(const Shape& whole) const;
  [[nodiscard]] Tensor block(const Context& context, std::int64_t b, std::int64_t chunk) const;
  void start(const Context& context, std::int64_t chunk) const;

  // The local rows of the sum: f32, or the compute dtype where sums are rounded.
  [[nodiscard]] Tensor finish(const Context& context) const;

 private:
  void start(const Context& context, const Tensor& sum, const Tensor& blocks) const;

  RowSplit rows_;
  std::int64_t blocks_, chunks_;
  // (local blocks, B, T, C) in the compute dtype, or (chunks, local blocks, rows / chunks, C).
  Activation blocks_out_{};
  Activation sum_{};  // (B, T, C); may be the first block
};

}  // namespace trireme
