// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/embedding.h"

#include <algorithm>
#include <cmath>

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/loss/embedding.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

namespace {

float rounded_to(DType dtype, float value) {
  if (dtype == DType::bf16) return static_cast<float>(bf16(value));
  return dtype == DType::f16 ? static_cast<float>(f16(value)) : value;
}

float scale_of(const TransformerOptions& options, DType compute) {
  if (!options.scaled_embedding) return 1;
  return rounded_to(compute, static_cast<float>(std::sqrt(static_cast<double>(options.hidden))));
}

}  // namespace

ParamSpec token_table_spec(const TransformerOptions& options, std::string name) {
  return {.name = std::move(name),
          .shape = {padded_vocabulary(options.vocabulary), options.hidden},
          .init = options.matrix_init(),
          .decay = true,
          .matrix = true,
          .shard_axis = 0,
          .tie = options.tied_head ? "embedding.token.weight" : ""};
}

Embedding::Embedding(Blueprint& blueprint, const TransformerOptions& options)
    : Layer("embedding",
            RowSplit(blueprint, blueprint.rows_of(options.context), options.hidden).local()),
      rows_(blueprint, blueprint.rows_of(options.context), options.hidden),
      tensor_(blueprint.tensor()),
      split_backward_(blueprint.splits_backward()),
      scale_(scale_of(options, blueprint.compute())),
      first_position_(options.position_offset),
      table_block_{padded_vocabulary(options.vocabulary) / tensor_.blocks, options.hidden},
      dropout_(blueprint, "embedding.dropout", static_cast<float>(options.dropout), rows_) {
  tokens_ = blueprint.shared_parameter(token_table_spec(options));
  if (options.learned_positions) {
    positions_ =
        blueprint.shared_parameter({.name = "embedding.position.weight",
                                    .shape = {first_position_ + options.context, options.hidden},
                                    .init = options.position_init,
                                    .matrix = true});
  }
  const Shape& whole = rows_.whole();
  if (options.scaled_embedding) {
    TRIREME_EXPECTS(!options.learned_positions && !options.embedding_norm,
                    "a scaled embedding with learned positions or a norm");
    dsum_ = blueprint.scratch(whole);
  }
  if (options.token_types > 0) {
    TRIREME_EXPECTS(options.learned_positions, "token types without learned positions");
    types_ = blueprint.shared_parameter({.name = "embedding.type.weight",
                                         .shape = {options.token_types, options.hidden},
                                         .init = options.matrix_init(),
                                         .decay = true});
    added_ = blueprint.scratch({options.context, options.hidden});
    added_gradient_ = blueprint.scratch({options.context, options.hidden}, DType::f32);
  }
  if (options.embedding_norm) {
    norm_.emplace(blueprint, "embedding.norm", options.norm, rows_);
    sum_ = blueprint.keep(rows_.local());
    dsum_ = blueprint.scratch(whole);
  }
  if (tensor_.blocked())
    found_ = blueprint.scratch({tensor_.local(), whole[0], whole[1], whole[2]});
}

void Embedding::add_limits(ModelLimits& limits) const {
  limits.tensor.push_back(
      {table_block_[0] * tensor_.blocks,
       fmt::format("model.vocabulary padded to a multiple of {}", vocabulary_multiple)});
}

void Embedding::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor sum = norm_ ? context(sum_) : y;
  if (tensor_.blocked()) {
    look_up_blocks(context, x, sum);
    if (positions_.index >= 0) add_positions(context, sum);
  } else {
    const bool own =  // rows are positions
        context.decode == nullptr && positions_.index >= 0 && rows_.in_order();
    ops::embedding_forward(context.stream, sum, x, context.params.compute(tokens_),
                           own ? added_rows(context) : Tensor{}, context.batch.document_starts);
    if (positions_.index >= 0 && !own) add_positions(context, sum);
  }
  if (norm_) norm_->forward(context, y, sum);
  if (scale_ != 1) ops::scale_in_place(context.stream, y, scale_);
  dropout_.forward(context, y);
}

// One block has each token's row and the others write zero, so the sum is exact in any dtype.
void Embedding::look_up_blocks(const Context& context, const Tensor& tokens,
                               const Tensor& y) const {
  const Tensor found = context(found_), table = context.params.compute(tokens_);
  for (std::int64_t b = 0; b < tensor_.local(); ++b) {
    ops::embedding_partial_forward(context.stream, block_of(found, b, rows_.whole()), tokens,
                                   block_of(table, b, table_block_),
                                   (tensor_.first() + b) * table_block_[0]);
  }
  if (rows_.split()) {
    const Tensor sum = block_of(found, 0, rows_.whole());
    if (tensor_.local() > 1) ops::sum_blocks(context.stream, sum, found);
    context.tensor->reduce_scatter(context.stream, sum, y);
    return;
  }
  ops::sum_blocks(context.stream, y, found);
  if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, y);
}

Tensor Embedding::position_rows(const Tensor& table) const {
  if (table.empty()) return table;  // of frozen positions there is no gradient
  const std::int64_t C = rows_.whole()[2], rows = table.shape[0] - first_position_;
  return table.range(first_position_ * C, rows * C).reshaped({rows, C});
}

Tensor Embedding::added_rows(const Context& context) const {
  const Tensor positions = position_rows(context.params.compute(positions_));
  if (types_.index < 0) return positions;
  const Tensor added = context(added_);
  const std::int64_t C = added.shape[1];
  ops::add_bias_residual(context.stream, added, positions,
                         context.params.compute(types_).range(0, C).reshaped(Shape{C}));
  return added;
}

void Embedding::accumulate_added(const Context& context, const Tensor& dy,
                                 const Tensor& tokens) const {
  const Tensor added = context(added_gradient_), types = context.params.gradient(types_);
  context.stream.device().fill_zero(context.stream, added.data, added.bytes());
  ops::embedding_backward(context.stream, {}, added, dy, tokens, context.batch.document_starts,
                          rows_.runs_of(context.block));
  if (context.params.trains(positions_))
    ops::add_in_place(context.stream, position_rows(context.params.gradient(positions_)), added);
  const std::int64_t C = added.shape[1];
  ops::column_sums(context.stream, types.range(0, C).reshaped(Shape{C}), added);
  context.ready(types_);
}

Tensor Embedding::backward_norm(const Context& context, const Tensor& dy) const {
  if (!norm_ && scale_ == 1) return dy;
  const Tensor whole = context(dsum_);
  if (!norm_) {
    context.stream.device().copy(context.stream, whole.data, dy.data, dy.bytes());
    ops::scale_in_place(context.stream, whole, scale_);
    return whole;
  }
  const Tensor own = rows_.own(dy.reshaped(rows_.whole()));
  norm_->backward(context, rows_.own(whole), own, context(sum_), /*accumulate=*/false);
  if (split_backward_) norm_->backward_weight(context, own, context(sum_));
  rows_.gather(context, whole);
  return whole;
}

// Local rows may begin and end within a sequence: one call for each run of positions.
void Embedding::add_positions(const Context& context, const Tensor& y) const {
  const Tensor table = added_rows(context);
  const Tensor& starts = context.batch.document_starts;
  const Tensor spans = context.decode == nullptr ? Tensor{} : context.decode->spans;
  if (rows_.in_order()) return ops::add_positions(context.stream, y, y, table, starts, {}, spans);
  const std::int64_t C = rows_.whole()[2];
  for (const RowSplit::Piece& piece : rows_.pieces(context.block)) {
    const Tensor part = y.range(piece.row * C, piece.rows * C).reshaped({1, piece.rows, C});
    const Tensor own =
        starts.empty()
            ? Tensor{}
            : starts.range(rows_.first_row() + piece.row, piece.rows).reshaped({1, piece.rows});
    ops::add_positions(context.stream, part, part, table, own,
                       {.rows = piece.rows, .first = piece.position});
  }
}

void Embedding::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                         const Tensor& dy, const Tensor& /*dx*/) {
  const Tensor gradient = dropout_.backward(context, dy);
  if (!split_backward_) accumulate(context, gradient, x);
}

void Embedding::backward_weight(const Context& context, const Tensor& x) {
  accumulate(context, dropout_.gradient(context), x);
}

void Embedding::accumulate(const Context& context, const Tensor& gradient,
                           const Tensor& tokens) const {
  const Tensor dy = backward_norm(context, gradient);
  const Tensor d_table = trained_gradient(context, tokens_);
  const bool learned = positions_.index >= 0;
  const bool alone = learned && types_.index < 0;
  const Tensor d_positions =
      alone ? position_rows(trained_gradient(context, positions_)) : Tensor{};
  const Tensor& starts = context.batch.document_starts;
  const ops::RowRuns runs = rows_.runs_of(context.block);
  if (learned && !alone) accumulate_added(context, dy, tokens);
  if (tensor_.blocked()) {
    if (!d_positions.empty())
      ops::embedding_backward(context.stream, {}, d_positions, dy, tokens, starts, runs);
    for (std::int64_t b = 0; !d_table.empty() && b < tensor_.local(); ++b) {
      ops::embedding_partial_backward(context.stream, block_of(d_table, b, table_block_), dy,
                                      tokens, (tensor_.first() + b) * table_block_[0]);
    }
  } else if (!d_table.empty() || !d_positions.empty()) {
    ops::embedding_backward(context.stream, d_table, d_positions, dy, tokens, starts, runs);
  }
  if (learned) context.ready(positions_);
  context.ready(tokens_);  // a tied head that is the same parameter has reported before
}

}  // namespace trireme
