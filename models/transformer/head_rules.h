// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/transformer.h"
#include "runtime/config/rules/rules.h"

namespace trireme {

// Raises ExitCode::config unless model.heads divides model.hidden into supported head sizes.
void check_heads_of_hidden(const config::Subject& subject, std::int64_t hidden, std::int64_t heads);

// The same for models whose head size may differ from hidden / heads (`given`: model.head_size is
// set), with grouped queries and rotary positions.
void check_rotary_heads(const config::Subject& subject, const TransformerOptions& model,
                        bool given);

// For a gated MLP: two thirds of 4 x hidden, so its three matrices cost as much as the two of a
// plain MLP.
[[nodiscard]] std::int64_t balanced_intermediate(std::int64_t hidden);

// Checks that the optimizer supports per-parameter learning rates, which transfer from
// model.mup_base_width needs. Raises ExitCode::config.
void check_width_transfer(const config::Subject& subject, std::int64_t base_width);

// TransformerOptions::width.
[[nodiscard]] inline double width_over(std::int64_t hidden, std::int64_t base_width) {
  return base_width == 0 ? 1 : static_cast<double>(hidden) / static_cast<double>(base_width);
}

}  // namespace trireme
