// SPDX-License-Identifier: Apache-2.0
#include "models/layers/partial_sum.h"

#include "models/layers/blocks.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

PartialSum::PartialSum(Blueprint& blueprint, const RowSplit& rows)
    : rows_(rows), blocks_(blueprint.tensor().local()) {
  if (!blueprint.tensor().blocked()) return;
  const Shape& whole = rows.whole();
  blocks_out_ = blueprint.scratch({blocks_, whole[0], whole[1], whole[2]});
  if (blueprint.compute() == DType::f32 || blueprint.options().rounded_sums) {
    sum_ = blocks_out_;
    sum_.shape = whole;
  } else {
    sum_ = blueprint.scratch(whole, DType::f32);
  }
}

Tensor PartialSum::block(const Context& context, std::int64_t b) const {
  return block_of(context(blocks_out_), b, rows_.whole());
}

void PartialSum::start(const Context& context) const {
  const Tensor sum = context(sum_), blocks = context(blocks_out_);
  if (blocks_ > 1 || sum.data != blocks.data) ops::sum_blocks(context.stream, sum, blocks);
  if (context.tensor == nullptr) return;
  if (rows_.split()) {
    context.tensor->start_reduce_scatter(context.stream, sum, rows_.own(sum));
  } else {
    context.tensor->start_all_reduce(context.stream, sum);
  }
}

Tensor PartialSum::finish(const Context& context) const {
  if (context.tensor != nullptr) context.tensor->finish(context.stream);
  return rows_.own(context(sum_));
}

}  // namespace trireme
