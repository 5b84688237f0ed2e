// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

// Dropout on the local rows of the residual stream, at the end of a branch. Its backward also
// gathers the gradient's rows for the matmuls of that branch.
class Dropout {
 public:
  // `site` is relative to the current scope; it keys the mask.
  Dropout(Blueprint& blueprint, std::string_view site, float probability, const RowSplit& rows);

  // True when forward changes something.
  [[nodiscard]] bool active(const Context& context) const {
    return context.training && probability_ > 0;
  }
  // True when backward returns its input unchanged and whole.
  [[nodiscard]] bool keeps_gradient() const { return probability_ == 0 && !rows_.split(); }
  void forward(const Context& context, const Tensor& y) const;  // in place
  // out = residual + dropout(branch), if write(to, residual or nothing) writes the sum.
  template <typename Write>
  void add(const Context& context, const Write& write, const Tensor& out,
           const Tensor& residual) const {
    if (!active(context)) return write(out, residual);
    write(out, Tensor{});
    forward(context, out);
    ops::add_in_place(context.stream, out, residual);
  }
  // From the gradient after the mask (local rows) to the one before it (all rows). Returns dy
  // itself if nothing is dropped, gathered or kept; dy never changes.
  [[nodiscard]] Tensor backward(const Context& context, const Tensor& dy) const;
  // Backward's result, for backward_weight of a split backward.
  [[nodiscard]] Tensor gradient(const Context& context) const { return context(gradient_); }

 private:
  void mask(const Context& context, const Tensor& to, const Tensor& from) const;

  RowSplit rows_;
  std::uint64_t site_;
  float probability_;
  bool copies_;
  Activation gradient_{};  // (B, T, C), where backward does not return dy
};

}  // namespace trireme
