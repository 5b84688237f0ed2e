// SPDX-License-Identifier: Apache-2.0
// Blocks of sequences that are cut: their memory, and their rows of a batch.
#include <utility>

#include "runtime/nn/model.h"
#include "runtime/ops/elementwise/copy_boxes.h"

namespace trireme {

void Model::plan_cuts(std::int64_t samples) {
  if (!split_.cuts()) return;
  std::vector<ops::BoxCopy> cuts;
  for (int b = 0; b < blocks(); ++b)
    for (const ContextRun& run : split_.runs(split_.first() + b))
      cuts.push_back({.to = run.row,
                      .from = run.position,
                      .counts = {1, 1, samples, run.rows},
                      .to_strides = {0, 0, split_.rows()},
                      .from_strides = {0, 0, split_.positions}});
  cuts_ = std::make_shared<const std::vector<ops::BoxCopy>>(std::move(cuts));
}

Context Model::block(const Context& context, int block) const {
  if (!split_.cuts()) return context;
  const Chunk& chunk = at(context.chunk);
  Context here = context;
  here.block = block;
  here.kept_shift += static_cast<std::ptrdiff_t>(chunk.kept_bytes) * block;
  here.scratch_shift = static_cast<std::ptrdiff_t>(block_scratch_) * block;
  TRIREME_EXPECTS(
      context.batch.document_starts.empty() || chunk.cut.document_starts.shape.rank() > 0,
      "documents in batches of a model that was declared without");
  const auto rows = [&](Tensor& whole, const Activation& own) {
    whole = own.shape.rank() > 0 && !whole.empty() ? here(own) : Tensor{};
  };
  rows(here.batch.inputs, chunk.cut.inputs);
  rows(here.batch.targets, chunk.cut.targets);
  here.batch.sequence_starts = context.batch.document_starts;
  rows(here.batch.document_starts, chunk.cut.document_starts);
  here.batch.sequence_bounds = std::exchange(here.batch.document_bounds, {});
  if (context.losses.empty()) return here;
  here.losses = here(losses_);
  here.correct = here(correct_);
  return here;
}

void Model::cut_batch(const Context& context) const {
  for (int b = 0; split_.cuts() && b < blocks(); ++b) {
    const Batch rows = block(context, b).batch;
    const std::span<const ops::BoxCopy> boxes(&(*cuts_)[2 * static_cast<std::size_t>(b)], 2);
    const auto cut = [&](const Tensor& to, const Tensor& from) {
      if (!to.empty()) ops::copy_boxes(context.stream, to, from, boxes);
    };
    cut(rows.inputs, context.batch.inputs);
    cut(rows.targets, context.batch.targets);
    cut(rows.document_starts, context.batch.document_starts);
  }
}

}  // namespace trireme
