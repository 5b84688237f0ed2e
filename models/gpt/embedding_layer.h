// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/gpt/gpt.h"
#include "models/layers/dropout.h"

namespace trireme {

inline constexpr std::int64_t vocabulary_multiple = 64;
[[nodiscard]] constexpr std::int64_t padded_vocabulary(std::int64_t vocabulary) {
  return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
}

// The token table, under the name by which the embedding or the tied head declares it.
[[nodiscard]] ParamSpec token_table_spec(const GptOptions& options,
                                         std::string name = "embedding.token.weight");

// Tokens (B, T) -> the local rows of the hidden states (B, T, C). With tensor blocks each holds a
// run of rows of the token table.
class GptEmbedding final : public Layer {
 public:
  GptEmbedding(Blueprint& blueprint, const GptOptions& options);

  [[nodiscard]] double forward_flops() const override { return 0; }  // a gather
  [[nodiscard]] bool splits_backward() const override { return true; }
  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  void look_up_blocks(const Context& context, const Tensor& tokens, const Tensor& y) const;
  void add_positions(const Context& context, const Tensor& y) const;
  void accumulate(const Context& context, const Tensor& dy, const Tensor& tokens) const;

  RowSplit rows_;
  TensorSplit tensor_;
  bool split_backward_;
  Shape table_block_;  // (padded vocabulary / blocks, C)
  Dropout dropout_;
  ParamId tokens_, positions_;
  Activation found_{};  // (local blocks, B, T, C): what each block knows of every token
};

}  // namespace trireme
