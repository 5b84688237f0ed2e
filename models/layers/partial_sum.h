// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"

namespace trireme {

// Sums the contributions of all tensor blocks to every row of the residual stream: first local
// blocks as a tree, then ranks (see tensor_group.h). The sum stays f32 until it is complete,
// whatever the compute dtype: if it were rounded per rank, its bits would depend on which blocks
// share a rank. BuildOptions::rounded_sums allows that, which halves the traffic. Reserves scratch,
// once per layer of the chain; nothing without tensor blocks.
class PartialSum {
 public:
  PartialSum(Blueprint& blueprint, const RowSplit& rows);

  [[nodiscard]] const RowSplit& rows() const { return rows_; }
  // The destination of local block b's contribution, (B, T, C).
  [[nodiscard]] Tensor block(const Context& context, std::int64_t b) const;
  // Call it when all blocks are written. Work enqueued until finish() overlaps the communication.
  void start(const Context& context) const;

  // The same in chunks of rows (BuildOptions::tensor_chunks), 0 to chunks() - 1 in this order:
  // write all blocks (rows / chunks, C) of a chunk, then start it. One finish() after the last.
  [[nodiscard]] std::int64_t chunks() const { return chunks_; }
  [[nodiscard]] Shape chunk_of(const Shape& whole) const;
  [[nodiscard]] Tensor block(const Context& context, std::int64_t b, std::int64_t chunk) const;
  void start(const Context& context, std::int64_t chunk) const;

  // The local rows of the sum: f32, or the compute dtype if sums are rounded.
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
