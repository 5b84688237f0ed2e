// SPDX-License-Identifier: Apache-2.0
#include "models/layers/low_rank.h"

#include <algorithm>
#include <cmath>

#include "models/layers/blocks.h"
#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/linear.h"
#include "runtime/ops/random/dropout.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

LowRankAdapter::LowRankAdapter(Blueprint& blueprint, const AdaptedWeight& weight)
    : column_(weight.axis == 0),
      blocked_(blueprint.tensor().blocked()),
      blocks_(blueprint.tensor().local()),
      samples_(weight.samples),
      rows_(weight.samples.count()),
      rank_(blueprint.adapters().rank),
      scale_(blueprint.adapters().scale),
      dropout_(blueprint.adapters().dropout),
      a_{rank_, column_ ? weight.inputs : weight.inputs / blueprint.tensor().blocks},
      b_{column_ ? weight.outputs / blueprint.tensor().blocks : weight.outputs, rank_},
      width_(weight.width > 0 ? weight.width : b_[0]),
      split_(blueprint.tensor()),
      context_(blueprint.options().context) {
  const std::string site = blueprint.full_name("dropout");
  site_ = stable_id(site.data(), site.size());
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(weight.inputs)));
  a_id_ = blueprint.parameter({.name = "lora_a",
                               .shape = {rank_, weight.inputs},
                               .init = Init::uniform(bound),
                               .decay = true,
                               .matrix = true,
                               .shard_axis = column_ ? -1 : 1,
                               .adapter = true});
  b_id_ = blueprint.parameter({.name = "lora_b",
                               .shape = {weight.outputs, rank_},
                               .decay = true,
                               .matrix = true,
                               .shard_axis = column_ ? 0 : -1,
                               .shard_parts = column_ ? weight.parts : 1,
                               .shard_lead = column_ ? weight.lead : 1,
                               .fused = weight.fused,
                               .adapter = true});
  const auto aligned = [](std::size_t bytes) {
    constexpr std::size_t alignment = 256;  // the fastest for tensor cores
    return (bytes + alignment - 1) / alignment * alignment;
  };
  const auto bytes = [&](std::int64_t width) {
    return aligned(static_cast<std::size_t>(rows_ * width) * size_of(blueprint.compute()));
  };
  narrow_bytes_ = bytes(rank_);
  wide_bytes_ = bytes(b_[0]);
  part_bytes_ = is_part() ? wide_bytes_ : 0;
  const std::size_t held = aligned(weight.held), dropped = dropout_ > 0 ? bytes(a_[1]) : 0;
  workspace_ = blueprint.workspace(held + 2 * narrow_bytes_ + wide_bytes_ + part_bytes_ + dropped);
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    given_[i] = {.to = weight.before,
                 .counts = {1, 1, i == 0 ? rows_ : rows_ / weight.chunks, b_[0]},
                 .to_strides = {0, 0, width_},
                 .from_strides = {0, 0, b_[0]}};
    taken_[i] = ops::reversed({given_[i]}).front();
  }
  workspace_.offset += held;
  workspace_.dtype = blueprint.compute();
  if (!blocked_ || !blueprint.options().training) return;
  const Shape& whole = column_ ? a_ : b_;
  partial_ = blueprint.scratch({blocks_, whole[0], whole[1]}, DType::f32);
}

// No op of an adapter uses workspace itself.
Tensor LowRankAdapter::in_workspace(const Context& context, std::size_t offset,
                                    const Shape& shape) const {
  return context.workspace.at(workspace_.offset + offset, workspace_.dtype, shape);
}

Tensor LowRankAdapter::a_block(const Tensor& a, std::int64_t b) const {
  return column_ ? a : block_of(a, b, a_);
}

Tensor LowRankAdapter::b_block(const Tensor& factor, std::int64_t b) const {
  return column_ ? block_of(factor, b, b_) : factor;
}

// Runs of rows of one sample, each at its position, cut to those of the run.
void LowRankAdapter::mask(const Context& context, const Tensor& to, const Tensor& from,
                          const RowRun& run, std::int64_t b) const {
  const std::int64_t count = from.shape[0], lo = run.index * count, hi = lo + count;
  const std::int64_t block = column_ ? 0 : split_.first() + b;
  const auto piece = [&](std::int64_t row, std::int64_t rows, std::int64_t position,
                         std::int64_t positions) {
    const std::int64_t first = std::max(row, lo), last = std::min(row + rows, hi);
    if (first >= last) return;
    const auto part = [&](const Tensor& all) {
      const std::int64_t width = all.shape[1];
      return all.range((first - lo) * width, (last - first) * width)
          .reshaped({last - first, width});
    };
    ops::dropout_rows(context.stream, part(to), part(from), context.batch.sample_ids, context.rng,
                      site_ + static_cast<std::uint64_t>(block), dropout_, position + first - row,
                      positions);
  };
  if (!context_.cuts()) return piece(0, rows_, 0, samples_[1]);
  for (std::int64_t sample = 0; sample < samples_[0]; ++sample)
    for (const ContextRun& part : context_.runs(context_.first() + context.block))
      piece(sample * samples_[1] + part.row, part.rows, sample * context_.positions + part.position,
            context_.positions);
}

Tensor LowRankAdapter::read(const Context& context, const BlockedRows& x, std::int64_t b) const {
  const Tensor rows = x.at(b, a_[1]);
  if (!drops(context)) return rows;
  const Tensor kept =
      in_workspace(context, 2 * narrow_bytes_ + wide_bytes_ + part_bytes_, rows.shape);
  mask(context, kept, rows, x.run, b);
  return kept;
}

Tensor LowRankAdapter::outputs(const Context& context, const BlockedRows& y, std::int64_t b) const {
  const Tensor rows = y.at(b, width_);
  if (!is_part()) return rows;
  const Tensor own = in_workspace(context, 2 * narrow_bytes_ + wide_bytes_, {rows.shape[0], b_[0]});
  ops::copy_boxes(context.stream, own, rows, {&taken_[rows.shape[0] == rows_ ? 0 : 1], 1});
  return own;
}

Tensor LowRankAdapter::inner(const Context& context, const BlockedRows& rows,
                             std::int64_t b) const {
  const Tensor x = read(context, rows, b);
  const Tensor u = in_workspace(context, 0, {x.shape[0], rank_});
  ops::linear_forward(context.stream, u, x, a_block(context.params.compute(a_id_), b));
  if (scale_ != 1) ops::scale_in_place(context.stream, u, scale_);
  return u;
}

Tensor LowRankAdapter::inner_gradient(const Context& context, const Tensor& dy,
                                      std::int64_t b) const {
  const Tensor du = in_workspace(context, narrow_bytes_, {dy.shape[0], rank_});
  ops::linear_backward_input(context.stream, du, dy, b_block(context.params.compute(b_id_), b));
  if (scale_ != 1) ops::scale_in_place(context.stream, du, scale_);
  return du;
}

void LowRankAdapter::forward(const Context& context, const BlockedRows& y,
                             const BlockedRows& x) const {
  Tensor u;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    if (b == 0 || !column_) u = inner(context, x, b);
    const Tensor to = outputs(context, y, b);
    const Tensor added = in_workspace(context, 2 * narrow_bytes_, to.shape);
    ops::linear_forward(context.stream, added, u, b_block(context.params.compute(b_id_), b));
    ops::add_in_place(context.stream, to, added);
    if (is_part())
      ops::copy_boxes(context.stream, y.at(b, width_), to,
                      {&given_[to.shape[0] == rows_ ? 0 : 1], 1});
  }
}

void LowRankAdapter::backward_input(const Context& context, const BlockedRows& dx,
                                    const BlockedRows& dy) const {
  Tensor du;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    if (b == 0 || column_) du = inner_gradient(context, outputs(context, dy, b), b);
    const Tensor to = dx.at(b, a_[1]), a = a_block(context.params.compute(a_id_), b);
    if (!drops(context)) {
      ops::linear_backward_input(context.stream, to, du, a, /*accumulate=*/true);
      continue;
    }
    const Tensor kept =
        in_workspace(context, 2 * narrow_bytes_ + wide_bytes_ + part_bytes_, to.shape);
    ops::linear_backward_input(context.stream, kept, du, a);
    mask(context, kept, kept, dy.run, b);
    ops::add_in_place(context.stream, to, kept);
  }
}

void LowRankAdapter::backward_weight(const Context& context, const BlockedRows& dy,
                                     const BlockedRows& x) const {
  const ParamId whole_id = column_ ? a_id_ : b_id_;
  const Tensor partial = blocked_ ? context(partial_) : Tensor{};
  if (blocked_) context.stream.device().fill_zero(context.stream, partial.data, partial.bytes());
  // The factor's own block, or its part of the sum over blocks.
  const auto gradient = [&](ParamId id, const Shape& shape, std::int64_t b) {
    const bool sums = blocked_ && id.index == whole_id.index;
    return block_of(sums ? partial : context.params.gradient(id), b, shape);
  };
  Tensor u, du;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const Tensor slope = outputs(context, dy, b);
    if (b == 0 || !column_) u = inner(context, x, b);
    const Tensor rows = drops(context)
                            ? in_workspace(context, 2 * narrow_bytes_ + wide_bytes_ + part_bytes_,
                                           x.at(b, a_[1]).shape)
                            : x.at(b, a_[1]);
    if (b == 0 || column_) du = inner_gradient(context, slope, b);
    ops::linear_backward_weight(context.stream, gradient(b_id_, b_, b), {}, slope, u);
    ops::linear_backward_weight(context.stream, gradient(a_id_, a_, b), {}, du, rows);
  }
  if (blocked_) {
    const Shape& shape = column_ ? a_ : b_;
    const Tensor total = block_of(partial, 0, shape);
    if (blocks_ > 1) ops::sum_blocks(context.stream, total, partial);
    if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, total);
    ops::add_in_place(context.stream, context.params.gradient(whole_id), total);
  }
  context.ready(b_id_);
  context.ready(a_id_);
}

}  // namespace trireme
