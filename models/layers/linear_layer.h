// SPDX-License-Identifier: Apache-2.0
// Fully connected layer: y = x W^T + b.
#pragma once

#include <optional>

#include "models/spatial/slab_sum.h"

namespace trireme {

class Linear {
 public:
  // Declares "<name>.weight" (outputs, inputs), decayed, and with `bias` "<name>.bias" (outputs).
  // `samples`: the shape (N, [D,] H, W, C) of an x that may be in slabs.
  Linear(Blueprint& blueprint, std::string_view name, std::int64_t inputs, std::int64_t outputs,
         Init init, bool bias = true, const Shape& samples = {});

  // x (..., inputs) -> y (..., outputs); residual, shaped like y, is added when given.
  void forward(const Context& context, const Tensor& y, const Tensor& x,
               const Tensor& residual = {}) const;
  // Accumulates and reports the parameter gradients; dx is overwritten.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x) const;
  // The two halves, for a split backward.
  void backward_input(const Context& context, const Tensor& dx, const Tensor& dy) const;
  void backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const;

 private:
  // Calls visit(i, slab of each tensor) for the slabs of the local rows; with what is not cut,
  // once.
  template <typename Visit, typename... Tensors>
  void each_slab(Visit&& visit, const Tensors&... tensors) const {
    for (std::size_t i = 0; i < slabs_.local().size(); ++i)
      visit(i, (tensors.empty() ? tensors : slabs_.of(tensors, slabs_.local()[i]))...);
  }

  Slabs slabs_;
  std::optional<SlabSum> weight_sum_, bias_sum_;
  ParamId weight_, bias_;
};

}  // namespace trireme
