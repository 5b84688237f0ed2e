// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/nn/layer.h"
#include "runtime/ops/common/row_runs.h"

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

// The positions of a sample's rows in this block of the rank's.
[[nodiscard]] inline ops::RowRuns row_runs(const ContextSplit& split, int block) {
  if (!split.cuts()) return {};
  const auto runs = split.runs(split.first() + block);
  return {runs[0].rows, runs[0].position, runs[1].position};
}

// Which rows of the residual stream (B, T, C) a rank holds. With sequence parallelism (Korthikanti
// et al., 2022), tensor rank r holds rows [r R, (r + 1) R) of the flattened (B * T, C) outside of
// split matmuls; otherwise every rank holds all rows.
class RowSplit {
 public:
  // For `length` rows per sample.
  RowSplit(const Blueprint& blueprint, std::int64_t length, std::int64_t hidden)
      : RowSplit(blueprint, {blueprint.micro_batch(), length, hidden}) {}
  RowSplit(const Blueprint& blueprint, const Shape& whole);

  [[nodiscard]] bool split() const { return split_; }
  [[nodiscard]] const Shape& whole() const { return whole_; }        // (B, T, C)
  [[nodiscard]] const Shape& local() const { return local_; }        // the same, or (R, C)
  [[nodiscard]] std::int64_t rows() const { return whole_.rows(); }  // B * T
  [[nodiscard]] std::int64_t first_row() const { return first_row_; }
  // Sums over rows are cut into one run per tensor block, so their bits depend neither on the ranks
  // nor on the split. Number of local runs; 0: not cut.
  [[nodiscard]] std::int64_t runs() const { return runs_; }
  [[nodiscard]] std::int64_t rows_of_run() const { return local_.rows() / runs_; }

  // Local rows of one sample at adjacent positions.
  struct Piece {
    std::int64_t row = 0, rows = 0;         // of the local ones
    std::int64_t sample = 0, position = 0;  // of the first
  };
  // Of block `block` of this rank's, where sequences are cut.
  [[nodiscard]] std::vector<Piece> pieces(int block) const;
  // The same where all rows are here.
  [[nodiscard]] ops::RowRuns runs_of(int block) const { return row_runs(context_, block); }
  // A sample's positions.
  [[nodiscard]] std::int64_t positions() const {
    return context_.cuts() ? context_.positions : whole_[1];
  }
  // Whether rows [0, T) of every sample are at positions [0, T), and all are here.
  [[nodiscard]] bool in_order() const { return !split_ && !context_.cuts(); }

  // The local rows of a whole tensor.
  [[nodiscard]] Tensor own(const Tensor& whole) const;
  // Each rank has written its own rows of `whole`; gathers all rows on all ranks.
  void gather(const Context& context, const Tensor& whole) const;

 private:
  Shape whole_, local_;
  ContextSplit context_;
  bool split_ = false;
  std::int64_t first_row_ = 0;
  std::int64_t runs_ = 0;
};

// Equal runs of the rows (B, T, C) of a micro-batch, BuildOptions::row_tile each, or all rows.
class RowTiles {
 public:
  RowTiles(const Blueprint& blueprint, const Shape& all);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const RowSplit& rows() const { return rows_; }  // of a tile, (1, rows, C)
  // A tile of a tensor with a row for each of the micro-batch.
  [[nodiscard]] Tensor of(const Tensor& all, const RowRun& tile) const {
    return count_ == 1 ? all : block_of(all, tile.index, shape_of_tile(all));
  }
  // Calls work(context, tile) for each. Parameters report with the last.
  template <typename Work>
  void each(const Context& context, Work&& work) const {
    for (std::int64_t i = 0; i < count_; ++i) {
      Context here = context;
      if (i + 1 < count_) here.gradients = nullptr;
      work(here, RowRun{i, count_});
    }
  }

 private:
  [[nodiscard]] Shape shape_of_tile(const Tensor& all) const {
    const std::int64_t width = all.count() / (count_ * rows_.rows());
    return {1, rows_.rows(), width};
  }

  std::int64_t count_;
  RowSplit rows_;
};

// The parameter's gradient; absent if it is frozen, or there is no such parameter.
[[nodiscard]] inline Tensor trained_gradient(const Context& context, ParamId id) {
  return id.index >= 0 && context.params.trains(id) ? context.params.gradient(id) : Tensor{};
}

}  // namespace trireme
