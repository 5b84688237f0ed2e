// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/row_split.h"

namespace trireme {

// Layer normalisation of the last axis with a learned scale and shift, of the local rows of the
// residual stream. With tensor blocks the parameter gradients are summed over runs of rows, then
// over the tree of runs, and with split rows over the ranks.
class LayerNorm {
 public:
  // Declares "<name>.weight" and "<name>.bias" (C), not decayed; keeps two statistics per row.
  LayerNorm(Blueprint& blueprint, std::string_view name, const RowSplit& rows);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // dx is overwritten, or added to when `accumulate`. Accumulates and reports the parameter
  // gradients; with a split backward they are left to backward_weight.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                bool accumulate) const;
  void backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const;

 private:
  void differentiate(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                     bool accumulate, bool with_parameters) const;
  void differentiate_runs(const Context& context, const Tensor& dx, const Tensor& dy,
                          const Tensor& x, bool accumulate, bool with_parameters) const;

  RowSplit rows_;
  bool split_backward_;
  ParamId weight_, bias_;
  Activation mean_, rstd_;  // (local rows)
  Activation partial_{};    // (runs, 2, C) f32: gradients of scale and shift
};

}  // namespace trireme
