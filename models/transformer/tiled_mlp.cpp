// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/tiled_mlp.h"

namespace trireme {

TiledMlp::TiledMlp(Blueprint& blueprint, const TransformerOptions& options)
    : tiles_(blueprint,
             {blueprint.micro_batch(), blueprint.rows_of(options.context), options.hidden}),
      mlp_(declare(blueprint, options, tiles_)) {}

Mlp TiledMlp::declare(Blueprint& blueprint, const TransformerOptions& options,
                      const RowTiles& tiles) {
  const Blueprint::Recomputed recomputed(blueprint);
  return {blueprint, options, PartialSum(blueprint, tiles.rows())};
}

void TiledMlp::project(const Context& context, const Tensor& out, const Tensor& residual,
                       const Tensor& normed) const {
  tiles_.each(context, [&](const Context& here, const RowRun& tile) {
    mlp_.forward(here, tiles_.of(normed, tile), {});
    mlp_.project(here, tiles_.of(out, tile),
                 residual.empty() ? residual : tiles_.of(residual, tile), tiles_.of(normed, tile));
  });
}

void TiledMlp::backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                        const Tensor& normed, const Tensor& /*gradient_amax*/) const {
  tiles_.each(context, [&](const Context& here, const RowRun& tile) {
    {
      const RepeatedWork repeated;
      mlp_.forward(here, tiles_.of(normed, tile), {});
    }
    mlp_.backward(here, tiles_.of(dnormed, tile), tiles_.of(gradient, tile),
                  tiles_.of(normed, tile), {});
  });
}

void TiledMlp::backward_weight(const Context& /*context*/, const Tensor& /*gradient*/,
                               const Tensor& /*normed*/) const {
  TRIREME_EXPECTS(false, "tiles of rows do not split their backward");
}

}  // namespace trireme
