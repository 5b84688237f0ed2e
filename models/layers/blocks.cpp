// SPDX-License-Identifier: Apache-2.0

#include "models/layers/blocks.h"

#include <algorithm>

namespace trireme {

RowSplit::RowSplit(const Blueprint& blueprint, const Shape& whole)
    : whole_(whole), local_(whole_), context_(blueprint.options().context) {
  const TensorSplit& tensor = blueprint.tensor();
  if (blueprint.decodes()) return;  // few rows, over which nothing is summed
  split_ = blueprint.sums().sequence && tensor.ranks > 1;
  if (!tensor.blocked()) return;
  TRIREME_EXPECTS(rows() % tensor.blocks == 0, "{} rows of a micro-batch in {} tensor blocks",
                  rows(), tensor.blocks);
  runs_ = split_ ? tensor.local() : tensor.blocks;
  if (!split_) return;
  local_ = Shape{rows() / tensor.ranks, whole[2]};
  first_row_ = tensor.rank * local_[0];
}

std::vector<RowSplit::Piece> RowSplit::pieces(int block) const {
  const std::int64_t begin = first_row_, end = begin + local_.rows(), length = whole_[1];
  std::vector<ContextRun> runs{{0, length, 0}};
  if (context_.cuts()) {
    const auto cut = context_.runs(context_.first() + block);
    runs.assign(cut.begin(), cut.end());
  }
  std::vector<Piece> all;
  for (std::int64_t sample = begin / length; sample * length < end; ++sample) {
    for (const ContextRun& run : runs) {
      const std::int64_t first = sample * length + run.row;
      const std::int64_t from = std::max(first, begin), to = std::min(first + run.rows, end);
      if (from < to) all.push_back({from - begin, to - from, sample, run.position + from - first});
    }
  }
  return all;
}

Tensor RowSplit::own(const Tensor& whole) const {
  return split_ ? block_of(whole, first_row_ / local_[0], local_) : whole;
}

void RowSplit::gather(const Context& context, const Tensor& whole) const {
  if (split_) context.tensor->all_gather(context.stream, own(whole), whole);
}

namespace {

Shape tile_of(const Blueprint& blueprint, const Shape& all) {
  const std::int64_t tile = blueprint.options().row_tile;
  if (tile == 0 || blueprint.decodes()) return all;
  TRIREME_EXPECTS(all.rows() % tile == 0 && !blueprint.sums().sequence,
                  "{} rows of a micro-batch in tiles of {}", all.rows(), tile);
  return tile == all.rows() ? all : Shape{1, tile, all[2]};
}

}  // namespace

RowTiles::RowTiles(const Blueprint& blueprint, const Shape& all)
    : count_(all.rows() / tile_of(blueprint, all).rows()),
      rows_(blueprint, tile_of(blueprint, all)) {}

}  // namespace trireme
