// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/gpt/gpt.h"

namespace trireme {

[[nodiscard]] constexpr std::int64_t padded_vocabulary(std::int64_t vocabulary) {
  return (vocabulary + 63) / 64 * 64;
}

// The token table, read by the embedding and by the tied head.
[[nodiscard]] ParamSpec token_table_spec(const GptOptions& options);

// Tokens (B, T) -> hidden states (B, T, C).
class GptEmbedding final : public Layer {
 public:
  GptEmbedding(Blueprint& blueprint, const GptOptions& options);

  [[nodiscard]] double forward_flops() const override { return 0; }  // a gather
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  float dropout_;
  ParamId tokens_, positions_;
};

}  // namespace trireme
