// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/dropout.h"
#include "models/layers/norm.h"
#include "models/transformer/transformer.h"

namespace trireme {

// The token table, under the name that the embedding or the head declares: tied or separate.
[[nodiscard]] ParamSpec token_table_spec(const TransformerOptions& options,
                                         std::string name = "embedding.token.weight");

// Tokens (B, T) -> the local rows of the hidden states (B, T, C), normalised if the options say so.
// Each tensor block holds a run of the token table's rows.
class Embedding final : public Layer {
 public:
  Embedding(Blueprint& blueprint, const TransformerOptions& options);

  [[nodiscard]] bool splits_backward() const override { return true; }
  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  void look_up_blocks(const Context& context, const Tensor& tokens, const Tensor& y) const;
  void add_positions(const Context& context, const Tensor& y) const;
  // The rows of the position table, or of its gradient, that samples use.
  [[nodiscard]] Tensor position_rows(const Tensor& table) const;
  // (T, C): added to every sample's rows, from positions and the first token type.
  [[nodiscard]] Tensor added_rows(const Context& context) const;
  void accumulate_added(const Context& context, const Tensor& dy, const Tensor& tokens) const;
  // From the gradient after the norm or scale to the one before it; all rows.
  [[nodiscard]] Tensor backward_norm(const Context& context, const Tensor& dy) const;
  void accumulate(const Context& context, const Tensor& gradient, const Tensor& tokens) const;

  RowSplit rows_;
  TensorSplit tensor_;
  bool split_backward_;
  float scale_;  // of the looked-up rows
  std::int64_t first_position_;
  Shape table_block_;  // (padded vocabulary / blocks, C)
  Dropout dropout_;
  ParamId tokens_, positions_;  // positions only if they are learned
  ParamId types_;
  std::optional<Norm> norm_;
  Activation sum_{}, dsum_{};              // before the norm: local rows, and all rows
  Activation added_{}, added_gradient_{};  // (T, C), with token types
  Activation found_{};  // (local blocks, B, T, C): each block's rows for every token
};

}  // namespace trireme
