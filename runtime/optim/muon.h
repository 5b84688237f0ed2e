// SPDX-License-Identifier: Apache-2.0
// The Newton-Schulz half of Muon (Jordan et al., 2024) over everything that a layout cuts:
// a matrix in tensor blocks stays there, for the blocks only have to add up their Gram matrices (as
// a tree over blocks: the same bits for any number of ranks); slices of ZeRO are gathered, a bucket
// at a time, and each rank works on the matrices that its own slice touches.
#pragma once

#include <array>
#include <vector>

#include "runtime/nn/param_store.h"
#include "runtime/nn/tensor_group.h"
#include "runtime/ops/gemm/newton_schulz.h"

namespace trireme {

class Muon {
 public:
  // `slices`: the ranks that hold slices of the buckets; `tensor`: those that hold tensor blocks.
  // Null where there are none. Everything must outlive this.
  Muon(Device& device, const ParamStore& params, const TensorGroup* slices,
       const TensorGroup* tensor);

  // The own slices of the gradients hold directions: those of hidden matrices (ParamSpec::hidden)
  // become about orthogonal, with entries of size 0.2 in the mean square whatever the shape, so
  // that AdamW's learning rates and decay suit them (Liu et al., "Muon is scalable for LLM
  // training", 2025). Queries, keys and values are matrices of their own.
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
  // (side, side) f32: of the matrix whose local blocks are y(blocks, length, side).
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
