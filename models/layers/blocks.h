// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"

namespace trireme {

// Block b, of this shape, of a tensor of concatenated blocks: this rank's blocks of a parameter,
// their outputs, or runs of rows.
[[nodiscard]] inline Tensor block_of(const Tensor& blocks, std::int64_t b, const Shape& shape) {
  return blocks.range(b * shape.count(), shape.count()).reshaped(shape);
}

// The index-th of `count` equal runs of a tensor's rows.
struct RowRun {
  std::int64_t index = 0, count = 1;

  [[nodiscard]] Tensor of(const Tensor& rows) const {
    if (count == 1) return rows;
    return block_of(rows, index, {rows.shape.rows() / count, rows.shape.back()});
  }
};

// Block b's entry in a tensor with one value per block; empty if there are none.
[[nodiscard]] inline Tensor value_of(const Tensor& values, std::int64_t b) {
  return values.empty() ? values : values.range(b, 1);
}

// `count` concatenated blocks of this shape (B, T, width).
[[nodiscard]] inline Shape blocks_of(std::int64_t count, const Shape& block) {
  return {count, block[0], block[1], block[2]};
}

// The memory of an activation under another shape, which may be smaller.
[[nodiscard]] inline Activation reshaped(Activation activation, const Shape& shape) {
  activation.shape = shape;
  return activation;
}

// (N, D, H, W, C) as an image (N, D * H, W, C), for ops that treat all pixels alike.
[[nodiscard]] inline Tensor as_image(const Tensor& x) {
  if (x.shape.rank() != 5) return x;
  return x.reshaped({x.shape[0], x.shape[1] * x.shape[2], x.shape[3], x.shape[4]});
}

// Activations that Recompute::selective does not keep.
[[nodiscard]] inline Activation keep_or_recompute(Blueprint& blueprint, const Shape& shape,
                                                  DType dtype) {
  return blueprint.options().recompute == Recompute::selective ? blueprint.scratch(shape, dtype)
                                                               : blueprint.keep(shape, dtype);
}

// Which rows of the residual stream (B, T, C) a rank holds. With sequence parallelism (Korthikanti
// et al., 2022), tensor rank r holds rows [r R, (r + 1) R) of the flattened (B * T, C) outside of
// split matmuls; otherwise every rank holds all rows.
class RowSplit {
 public:
  // For `length` rows per sample.
  RowSplit(const Blueprint& blueprint, std::int64_t length, std::int64_t hidden);

  [[nodiscard]] bool split() const { return split_; }
  [[nodiscard]] const Shape& whole() const { return whole_; }        // (B, T, C)
  [[nodiscard]] const Shape& local() const { return local_; }        // the same, or (R, C)
  [[nodiscard]] std::int64_t rows() const { return whole_.rows(); }  // B * T
  [[nodiscard]] std::int64_t first_row() const { return first_row_; }
  // Sums over rows are cut into one run per tensor block, so their bits depend neither on the ranks
  // nor on the split. Number of local runs; 0: not cut.
  [[nodiscard]] std::int64_t runs() const { return runs_; }
  [[nodiscard]] std::int64_t rows_of_run() const { return local_.rows() / runs_; }

  // The local rows of a whole tensor.
  [[nodiscard]] Tensor own(const Tensor& whole) const;
  // Each rank has written its own rows of `whole`; gathers all rows on all ranks.
  void gather(const Context& context, const Tensor& whole) const;

 private:
  Shape whole_, local_;
  bool split_ = false;
  std::int64_t first_row_ = 0;
  std::int64_t runs_ = 0;
};

}  // namespace trireme
