// SPDX-License-Identifier: Apache-2.0
#include "models/heads/row_head.h"

#include "models/layers/blocks.h"
#include "runtime/base/philox.h"
#include "runtime/ops/convolution/patches.h"
#include "runtime/ops/convolution/pooling.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/random/dropout.h"

namespace trireme {
namespace {

std::uint64_t site_of(const Blueprint& blueprint) {
  const std::string name = blueprint.full_name("classifier.dropout");
  return stable_id(name.data(), name.size());
}

void copy(const Context& context, const Tensor& to, const Tensor& from) {
  if (to.data != from.data)
    context.stream.device().copy(context.stream, to.data, from.data, from.bytes());
}

std::optional<Norm> norm_of(Blueprint& blueprint, const RowHeadOptions& options,
                            const RowSplit& rows) {
  if (!options.norm) return {};
  return Norm(blueprint, "final_norm", *options.norm, rows, options.norm_gain);
}

std::optional<Linear> pooler_of(Blueprint& blueprint, const RowHeadOptions& options) {
  if (!options.pooler) return {};
  return Linear(blueprint, "pooler", options.hidden, options.hidden, options.init);
}

ops::EdgeRow edge_of(RowPooling pooling) {
  return pooling == RowPooling::last ? ops::EdgeRow::last : ops::EdgeRow::first;
}

}  // namespace

RowHead::RowHead(Blueprint& blueprint, const RowHeadOptions& options)
    : Layer("head", Shape{}),
      rows_(blueprint, options.context, options.hidden),
      options_(options),
      split_backward_(blueprint.splits_backward()),
      dropout_site_(site_of(blueprint)),
      norm_(norm_of(blueprint, options, rows_)),
      pooler_(pooler_of(blueprint, options)),
      classifier_(blueprint, "classifier", options.hidden, options.head.outputs, options.init,
                  options.bias),
      loss_(blueprint, options.head, options.mix) {
  const Shape& whole = rows_.whole();
  const bool all = options.pooling == RowPooling::all;
  const Shape rows{all ? rows_.rows() : whole[0], options.hidden};
  pooled_ = blueprint.keep(rows);
  if (all) whole_ = reshaped(pooled_, whole);
  if (!all && (norm_ || rows_.split())) whole_ = blueprint.scratch(whole);
  activated_ = pooler_ ? blueprint.keep(rows) : pooled_;
  features_ =
      options.dropout > 0 && blueprint.options().training ? blueprint.keep(rows) : activated_;
  dfeatures_ = blueprint.until_weight(rows);
  dpooled_ = pooler_ ? blueprint.scratch(rows) : dfeatures_;
  dwhole_ = all     ? reshaped(dpooled_, whole)
            : norm_ ? blueprint.until_weight(whole)
                    : blueprint.scratch(whole);
  info_ = loss_.head(blueprint.keep({rows[0], options.head.outputs}));
}

// Pooling needs whole sequences.
void RowHead::add_limits(ModelLimits& limits) const {
  limits.positions = {};
}

Tensor RowHead::gathered(const Context& context, const Tensor& x) const {
  const bool all = options_.pooling == RowPooling::all;
  if (!norm_ && !rows_.split() && !all) return x;
  const Tensor whole = context(whole_);
  if (norm_) {
    norm_->forward(context, rows_.own(whole), x);
  } else {
    copy(context, rows_.own(whole), x);
  }
  rows_.gather(context, whole);
  return whole;
}

void RowHead::pool(const Context& context, const Tensor& pooled, const Tensor& rows) const {
  const Shape& whole = rows_.whole();
  if (options_.pooling == RowPooling::all) return;
  if (options_.pooling == RowPooling::mean) {
    ops::global_average_pool_forward(context.stream, pooled,
                                     rows.reshaped({whole[0], whole[1], 1, whole[2]}));
  } else {
    ops::edge_rows_forward(context.stream, pooled, rows, edge_of(options_.pooling),
                           context.batch.document_starts);
  }
}

void RowHead::spread(const Context& context, const Tensor& drows, const Tensor& dpooled) const {
  const Shape& whole = rows_.whole();
  if (options_.pooling == RowPooling::all) return;
  if (options_.pooling == RowPooling::mean) {
    ops::global_average_pool_backward(context.stream,
                                      drows.reshaped({whole[0], whole[1], 1, whole[2]}), dpooled);
  } else {
    ops::edge_rows_backward(context.stream, drows, dpooled, edge_of(options_.pooling),
                            context.batch.document_starts);
  }
}

void RowHead::drop(const Context& context, const Tensor& to, const Tensor& from) const {
  if (options_.dropout == 0 || !context.training) return copy(context, to, from);
  const std::int64_t samples = rows_.whole()[0];
  const Shape by_sample{samples, to.count() / samples};
  ops::dropout(context.stream, to.reshaped(by_sample), from.reshaped(by_sample),
               context.batch.sample_ids, context.rng, dropout_site_,
               static_cast<float>(options_.dropout));
}

void RowHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor pooled = context(pooled_), activated = context(activated_);
  const Tensor features = context(features_), logits = context(info_.logits);
  pool(context, pooled, gathered(context, x.reshaped(rows_.local())));
  if (pooler_) {
    pooler_->forward(context, activated, pooled);
    ops::tanh_forward(context.stream, activated, activated);
  }
  drop(context, features, activated);
  classifier_.forward(context, logits, features);
  loss_.forward(context, logits);
}

void RowHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                       const Tensor& /*dy*/, const Tensor& dx) {
  const Tensor dfeatures = context(dfeatures_), dpooled = context(dpooled_);
  const Tensor logits = context(info_.logits), dwhole = context(dwhole_);
  if (!split_backward_) classifier_.backward_weight(context, logits, context(features_));
  classifier_.backward_input(context, dfeatures, logits);
  drop(context, dfeatures, dfeatures);
  if (pooler_) {
    ops::tanh_backward(context.stream, dfeatures, dfeatures, context(activated_));
    if (!split_backward_) pooler_->backward_weight(context, dfeatures, context(pooled_));
    pooler_->backward_input(context, dpooled, dfeatures);
  }
  spread(context, dwhole, dpooled);
  const Tensor own = rows_.own(dwhole);
  if (norm_) return norm_->backward(context, dx, own, x, /*accumulate=*/false);
  copy(context, dx, own);
}

void RowHead::backward_weight(const Context& context, const Tensor& x) {
  classifier_.backward_weight(context, context(info_.logits), context(features_));
  if (pooler_) pooler_->backward_weight(context, context(dfeatures_), context(pooled_));
  if (norm_) norm_->backward_weight(context, rows_.own(context(dwhole_)), x);
}

}  // namespace trireme
