// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"

namespace trireme {

// Layer normalisation of the last axis with a learned scale and shift.
class LayerNorm {
 public:
  // Declares "<name>.weight" and "<name>.bias" (width), not decayed; keeps two statistics per row.
  LayerNorm(Blueprint& blueprint, std::string_view name, std::int64_t rows, std::int64_t width);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // dx is overwritten, or added to when `accumulate`.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                bool accumulate) const;

 private:
  ParamId weight_, bias_;
  Activation mean_, rstd_;  // (rows)
};

}  // namespace trireme
