// SPDX-License-Identifier: Apache-2.0

#include "models/layers/blocks.h"

namespace trireme {

RowSplit::RowSplit(const Blueprint& blueprint, std::int64_t length, std::int64_t hidden)
    : whole_{blueprint.micro_batch(), length, hidden}, local_(whole_) {
  const TensorSplit& tensor = blueprint.tensor();
  if (blueprint.decodes()) return;  // few rows, over which nothing is summed
  split_ = blueprint.options().sequence && tensor.ranks > 1;
  if (!tensor.blocked()) return;
  TRIREME_EXPECTS(rows() % tensor.blocks == 0, "{} rows of a micro-batch in {} tensor blocks",
                  rows(), tensor.blocks);
  runs_ = split_ ? tensor.local() : tensor.blocks;
  if (!split_) return;
  local_ = Shape{rows() / tensor.ranks, hidden};
  first_row_ = tensor.rank * local_[0];
}

Tensor RowSplit::own(const Tensor& whole) const {
  return split_ ? block_of(whole, first_row_ / local_[0], local_) : whole;
}

void RowSplit::gather(const Context& context, const Tensor& whole) const {
  if (split_) context.tensor->all_gather(context.stream, own(whole), whole);
}

}  // namespace trireme
