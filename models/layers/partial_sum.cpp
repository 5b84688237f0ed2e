// SPDX-License-Identifier: Apache-2.0
#include "models/layers/partial_sum.h"

#include "models/layers/blocks.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

PartialSum::PartialSum(Blueprint& blueprint, const RowSplit& rows)
    : rows_(rows),
      blocks_(blueprint.tensor().local()),
      chunks_(blueprint.tensor().blocked() ? blueprint.sums().chunks : 1) {
  TRIREME_EXPECTS(chunks_ == 1 || (!blueprint.sums().sequence && rows.rows() % chunks_ == 0),
                  "{} rows of a micro-batch in {} chunks", rows.rows(), chunks_);
  if (!blueprint.tensor().blocked()) return;
  const Shape& whole = rows.whole();
  blocks_out_ = blueprint.scratch({blocks_, whole[0], whole[1], whole[2]});
  if (blueprint.compute() == DType::f32 || blueprint.sums().rounded) {
    sum_ = blocks_out_;
    sum_.shape = whole;
  } else {
    sum_ = blueprint.scratch(whole, DType::f32);
  }
}

// A sum that shares the blocks' memory overwrites blocks of earlier chunks: chunk c's sum begins at
// the size of c sums, its blocks at the size of all blocks of c chunks.
void PartialSum::start(const Context& context, const RowRun& run, const Tensor& blocks) const {
  const Tensor sum = run.of(context(sum_)).reshaped({blocks.shape[1], blocks.shape[2]});
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
