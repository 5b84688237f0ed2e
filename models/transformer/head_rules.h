// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/transformer.h"
#include "runtime/config/rules/rules.h"

namespace trireme {

// That model.heads divides model.hidden into heads that kernels take. Raises ExitCode::config.
void check_heads_of_hidden(const config::Subject& subject, std::int64_t hidden, std::int64_t heads);

// The same of a model whose heads may be apart from the hidden width (`given`: model.head_size is),
// share keys and have rotary positions.
void check_rotary_heads(const config::Subject& subject, const TransformerOptions& model,
                        bool given);

// Of a gated MLP: two thirds of the 4 x hidden of an MLP with two matrices, so that three cost as
// much.
[[nodiscard]] std::int64_t balanced_intermediate(std::int64_t hidden);

// That the optimizer has learning rates by parameter where widths are transferred from
// model.mup_base_width. Raises ExitCode::config.
void check_width_transfer(const config::Subject& subject, std::int64_t base_width);

// TransformerOptions::width.
[[nodiscard]] inline double width_over(std::int64_t hidden, std::int64_t base_width) {
  return base_width == 0 ? 1 : static_cast<double>(hidden) / static_cast<double>(base_width);
}

}  // namespace trireme
