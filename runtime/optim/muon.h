// SPDX-License-Identifier: Apache-2.0
// The Newton-Schulz half of Muon (Jordan et al., 2024) in every layout: matrices in tensor blocks
// stay there, because blocks only add their Gram matrices (as a tree over blocks: the same bits for
// any number of ranks); ZeRO slices are gathered, one bucket at a time, and each rank processes the
// matrices that its slice overlaps.
#pragma once

#include <array>
#include <vector>

#include "runtime/nn/param_store.h"
#include "runtime/nn/tensor_group.h"
#include "runtime/ops/gemm/newton_schulz.h"

namespace trireme {

class Muon {
 public:
  // `slices`: the ranks with slices of the buckets; `tensor`: those with tensor blocks. Null if
  // there are none. Everything must outlive this.
  Muon(Device& device, const ParamStore& params, const TensorGroup* slices,
       const TensorGroup* tensor);

  // This rank's gradient slices hold directions. Those of hidden matrices (ParamSpec::hidden)
  // become nearly orthogonal, with root mean square entries of 0.2 for any shape, so that AdamW's
  // learning rates and decay fit (Liu et al., "Muon is scalable for LLM training", 2025). Queries,
  // keys and values are separate matrices.
  void orthogonalize(Stream& stream);

 private:
  // One matrix of a parameter.
  struct Part {
    std::int64_t offset = 0;  // in the parameter
    ops::MatrixBlocks blocks{};
    bool split = false;
    float factor = 0;

    [[nodiscard]] std::int64_t side() const {  // of the Gram matrix
      return blocks.transposed ? blocks.rows : blocks.columns;
    }
    [[nodiscard]] std::int64_t length() const {
      return blocks.transposed ? blocks.columns : blocks.rows;
    }
  };
  struct Matrix {
    std::int64_t first = 0, count = 0;  // in the bucket
    std::vector<Part> parts{};
  };
  struct Work {
    const Bucket* bucket = nullptr;
    std::vector<Matrix> matrices{};
  };

  static std::vector<Part> parts_of(const ParamSpec& spec, const TensorSplit& split);
  void allocate();
  void orthogonalize(Stream& stream, const Tensor& x, const Part& part);
  // (side, side) f32: for the matrix whose local blocks are y(blocks, length, side).
  [[nodiscard]] Tensor gram_of(Stream& stream, const Tensor& y, const Part& part);

  Device& device_;
  const ParamStore& params_;
  const TensorGroup* slices_;
  const TensorGroup* tensor_;
  DType dtype_;
  std::vector<Work> work_;
  Buffer bucket_;                  // of whole buckets, f32
  std::array<Buffer, 2> local_;    // (blocks, length, side)
  Buffer grams_;                   // (blocks, side, side) f32
  std::array<Buffer, 3> squares_;  // (side, side): G, its square, the polynomial
  Buffer scale_;
};

}  // namespace trireme
