// SPDX-License-Identifier: Apache-2.0
#include "models/layers/dropout.h"

#include "runtime/base/philox.h"
#include "runtime/ops/random/dropout.h"

namespace trireme {
namespace {

std::uint64_t site_id(const Blueprint& blueprint, std::string_view site) {
  const std::string name = blueprint.full_name(site);
  return stable_id(name.data(), name.size());
}

}  // namespace

Dropout::Dropout(Blueprint& blueprint, std::string_view site, float probability,
                 const RowSplit& rows)
    : rows_(rows),
      site_(site_id(blueprint, site)),
      probability_(probability),
      copies_(probability > 0 || rows.split() || blueprint.splits_backward()) {
  if (copies_) gradient_ = blueprint.until_weight(rows.whole());
}

void Dropout::mask(const Context& context, const Tensor& to, const Tensor& from) const {
  if (rows_.in_order()) {
    ops::dropout(context.stream, to, from, context.batch.sample_ids, context.rng, site_,
                 probability_);
    return;
  }
  const std::int64_t width = rows_.whole()[2], positions = rows_.positions();
  for (const RowSplit::Piece& piece : rows_.pieces(context.block)) {
    const auto part = [&](const Tensor& rows) {
      return rows.range(piece.row * width, piece.rows * width).reshaped({piece.rows, width});
    };
    ops::dropout_rows(context.stream, part(to), part(from), context.batch.sample_ids, context.rng,
                      site_, probability_, piece.sample * positions + piece.position, positions);
  }
}

void Dropout::forward(const Context& context, const Tensor& y) const {
  if (active(context)) mask(context, y, y);
}

Tensor Dropout::backward(const Context& context, const Tensor& dy) const {
  if (!copies_) return dy;
  const Tensor whole = context(gradient_);
  const Tensor own = rows_.own(whole);
  if (probability_ > 0) {
    mask(context, own, dy);
  } else {
    context.stream.device().copy(context.stream, own.data, dy.data, dy.bytes());
  }
  rows_.gather(context, whole);
  return whole;
}

}  // namespace trireme
