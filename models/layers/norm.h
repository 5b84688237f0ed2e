// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"

namespace trireme {

enum class NormKind : std::uint8_t {
  layer,  // mean and variance, a scale and a shift (Ba et al., 2016)
  rms     // root mean square, a scale (Zhang & Sennrich, 2019)
};

struct NormStyle {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
  double offset = 0;  // RMS norm: added to its scale; see ops/norm/row_norm.h
};

// Normalises the last axis of the residual stream's local rows. With tensor blocks the parameter
// gradients are summed over runs of rows, then over the tree of runs, and with split rows over the
// ranks.
class Norm {
 public:
  // `gain`: initial scale; multiplies the learning rate of scale and bias, so the norm behaves like
  // one of gain 1 whose result is multiplied.
  // Declares "<name>.weight" and, for a layer norm, "<name>.bias" (C), not decayed; keeps
  // statistics per row.
  Norm(Blueprint& blueprint, std::string_view name, const NormStyle& options, const RowSplit& rows,
       float gain = 1);

  // `amax` (1) u32, here and below: receives the largest magnitude of y or dx; may be absent.
  void forward(const Context& context, const Tensor& y, const Tensor& x,
               const Tensor& amax = {}) const;
  // dx is overwritten, or added to if `accumulate`. Accumulates and reports the parameter
  // gradients; with a split backward, backward_weight does that.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                bool accumulate, const Tensor& amax = {}) const;
  // Whether backward can write `amax`: not if rows are processed in runs.
  [[nodiscard]] bool measures_gradient() const { return rows_.runs() == 0; }
  void backward_weight(const Context& context, const Tensor& dy, const Tensor& x) const;

 private:
  // For some rows, starting at `row`. Either gradient may be absent.
  struct Gradients {
    Tensor dx{}, weight{}, bias{}, amax{};
  };
  void differentiate_rows(const Context& context, const Gradients& to, const Tensor& dy,
                          const Tensor& x, std::int64_t row, bool accumulate) const;
  void differentiate(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                     bool accumulate, bool with_parameters, const Tensor& amax) const;
  void differentiate_runs(const Context& context, const Tensor& dx, const Tensor& dy,
                          const Tensor& x, bool accumulate, bool with_parameters) const;
  [[nodiscard]] bool has_bias() const { return bias_.index >= 0; }
  [[nodiscard]] bool trains(const Context& context) const {
    return context.params.trains(weight_) || (has_bias() && context.params.trains(bias_));
  }

  NormStyle options_;
  RowSplit rows_;
  bool split_backward_;
  ParamId weight_, bias_;
  Activation mean_{}, rstd_;  // (local rows); RMS norms have no mean
  Activation partial_{};      // (runs, 1 or 2, C) f32: gradients of scale and shift
};

}  // namespace trireme
