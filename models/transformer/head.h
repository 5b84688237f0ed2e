// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/column_linear.h"
#include "models/layers/norm.h"
#include "models/transformer/transformer.h"

namespace trireme {

// Final norm, output projection (tied or not) and cross-entropy. The local rows of (B, T, C) ->
// losses of the context, on every rank. Each tensor block holds a run of the classes, and logits
// are never gathered: blocks exchange row maxima and sums. A decoding model ends with the logits of
// one row per sample.
class LanguageHead final : public Layer {
 public:
  LanguageHead(Blueprint& blueprint, const TransformerOptions& options);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  [[nodiscard]] bool splits_backward() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  // Logits of a tile, and from them its losses and, if wanted, in their place its gradients.
  void losses(const Context& context, const RowRun& tile, bool gradients) const;
  void block_losses(const Context& context, const Tensor& targets, bool gradients) const;
  // Decoding models: the rows of (B, rows, C) with wanted logits.
  [[nodiscard]] Tensor pick(const Context& context, const Tensor& x) const;

  RowSplit rows_;
  RowTiles tiles_;  // if there are several, backward computes logits again
  TensorSplit tensor_;
  HeadInfo info_;
  PartialSum sum_;
  Norm norm_;
  ColumnLinear project_;
  Activation picked_{};           // (B, 1, C): if a decoding pass has more than one row
  Activation normed_;             // (B, T, C): all rows
  Activation dnormed_;            // local rows
  Activation maxima_{}, sums_{};  // (B T) f32, (local blocks, B T, sums) f64; with tensor blocks
};

}  // namespace trireme
