// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/mlp.h"

namespace trireme {

// An MLP in tiles of rows (BuildOptions::row_tile; Bekman et al., Arctic Long Sequence Training,
// 2025): only one tile's wide activations exist, which backward computes again.
class TiledMlp final : public FeedForward {
 public:
  TiledMlp(Blueprint& blueprint, const TransformerOptions& options);

  [[nodiscard]] const Activation& spare() const override { return mlp_.spare(); }
  [[nodiscard]] Tensor amax(const Context& /*context*/) const override { return {}; }
  [[nodiscard]] Tensor gradient_amax(const Context& /*context*/) const override { return {}; }
  // project() does all of it.
  void forward(const Context& /*context*/, const Tensor& /*normed*/,
               const Tensor& /*normed_amax*/) const override {}
  void project(const Context& context, const Tensor& out, const Tensor& residual,
               const Tensor& normed) const override;
  void activate_again(const Context& /*context*/) const override {}
  void backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                const Tensor& normed, const Tensor& gradient_amax) const override;
  void backward_weight(const Context& context, const Tensor& gradient,
                       const Tensor& normed) const override;
  void add_limits(ModelLimits& limits) const override { mlp_.add_limits(limits); }

 private:
  [[nodiscard]] static Mlp declare(Blueprint& blueprint, const TransformerOptions& options,
                                   const RowTiles& tiles);

  RowTiles tiles_;
  Mlp mlp_;  // of one tile
};

}  // namespace trireme
