// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"

namespace trireme {

// The gradient of a parameter of a layer in slabs: the sum of what slabs contribute,
// first those of a rank as a tree, then ranks (tensor_group.h). Then all ranks have the same. Of a
// layer that is not cut, the gradient itself.
class SlabSum {
 public:
  SlabSum(Blueprint& blueprint, const Shape& parameter, bool cut);

  // Zeros the parts.
  void begin(const Context& context) const;
  // What local slab i is added to, f32.
  [[nodiscard]] Tensor part(const Context& context, ParamId parameter, std::size_t i) const;
  // Of a bias: adds dy's sums over pixels, by slab, and starts the sum.
  void start_columns(const Context& context, ParamId bias, const Slabs& slabs,
                     const Tensor& dy) const;
  // Work between start and finish overlaps the sum over ranks, which finish adds to the gradient.
  // The gradient is reported when it is complete.
  void start(const Context& context, ParamId parameter) const;
  void finish(const Context& context, ParamId parameter) const;

 private:
  Activation parts_{};  // (local slabs, parameter); rank 0: not cut
};

// Values that each slab of a tensor contributes, of all slabs on every rank: what is then computed
// of them in order has the same bits for any number of ranks. Of a tensor that is not cut, one
// part.
class SlabParts {
 public:
  SlabParts() = default;
  // (rows, columns) f32 of each slab.
  SlabParts(Blueprint& blueprint, const Slabs& slabs, std::int64_t rows, std::int64_t columns);

  // Of local slab i.
  [[nodiscard]] Tensor own(const Context& context, std::size_t i) const;
  // (slabs, rows, columns), after each rank has written its own.
  Tensor gather(const Context& context) const;

 private:
  Activation all_{};
  std::int64_t first_ = 0, local_ = 0;  // this rank's slabs
};

}  // namespace trireme
