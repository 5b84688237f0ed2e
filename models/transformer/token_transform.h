// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/layers/blocks.h"
#include "models/layers/linear_layer.h"
#include "models/transformer/transformer.h"

namespace trireme {

// y = activation(x W^T + b), on the local rows of (B, T, C): between BERT's last block and its
// head's norm. Every tensor rank computes all rows, which costs little compared to the blocks.
class TokenTransform final : public Layer {
 public:
  // Declares "transform.weight" (C, C) and "transform.bias".
  TokenTransform(Blueprint& blueprint, const TransformerOptions& options);

  [[nodiscard]] bool splits_backward() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  // All rows of a local tensor; uses `whole` if rows are split.
  [[nodiscard]] Tensor gathered(const Context& context, const Activation& whole,
                                const Tensor& local) const;
  void keep_own(const Context& context, const Tensor& local, const Tensor& whole) const;

  RowSplit rows_;
  bool split_backward_;
  ops::ActivationKind activation_;
  Linear linear_;
  Activation pre_, dpre_;                            // (B, T, C): all rows
  Activation input_{}, activated_{}, dactivated_{};  // the same, if rows are split
};

}  // namespace trireme
