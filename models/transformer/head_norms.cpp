// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/head_norms.h"

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {

HeadNorms::HeadNorms(Blueprint& blueprint, const ops::HeadNormOptions& options, const Shape& packed)
    : options_(options),
      blocks_(packed[0]),
      block_{packed[1], packed[2], packed[3]},
      statistics_{packed[1], packed[2], options.heads + options.kv_heads},
      scales_{2, packed[3] / (options.heads + 2 * options.kv_heads)},
      split_backward_(blueprint.options().split_backward) {
  const Shape scale{scales_[1]};
  query_ = blueprint.parameter({.name = "attention.query_norm.weight",
                                .shape = scale,
                                .init = Init::constant(1 - options.offset)});
  key_ = blueprint.parameter({.name = "attention.key_norm.weight",
                              .shape = scale,
                              .init = Init::constant(1 - options.offset)});
  rstd_ = blueprint.keep(blocks_of(blocks_, statistics_), DType::f32);
  const Shape partial{blocks_, scales_[0], scales_[1]};
  partial_ = split_backward_ ? blueprint.keep(partial, DType::f32)
                             : blueprint.scratch(partial, DType::f32);
}

void HeadNorms::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  const Tensor rstd = context(rstd_);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    ops::head_norm_forward(context.stream, block_of(y, b, block_), block_of(rstd, b, statistics_),
                           block_of(x, b, block_), context.params.compute(query_),
                           context.params.compute(key_), options_);
  }
}

void HeadNorms::backward(const Context& context, const Tensor& dy, const Tensor& x) const {
  const Tensor rstd = context(rstd_), partial = context(partial_);
  const Shape scale{scales_[1]};
  context.stream.device().fill_zero(context.stream, partial.data, partial.bytes());
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const Tensor own = block_of(partial, b, scales_);
    ops::head_norm_backward(context.stream, block_of(dy, b, block_), block_of(own, 0, scale),
                            block_of(own, 1, scale), block_of(x, b, block_),
                            block_of(rstd, b, statistics_), context.params.compute(query_),
                            context.params.compute(key_), options_);
  }
  if (!split_backward_) backward_weight(context);
}

void HeadNorms::backward_weight(const Context& context) const {
  if (!context.params.trains(query_) && !context.params.trains(key_)) return;
  const Tensor partial = context(partial_), total = block_of(partial, 0, scales_);
  if (blocks_ > 1) ops::sum_blocks(context.stream, total, partial);
  if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, total);
  const Shape scale{scales_[1]};
  ops::add_in_place(context.stream, context.params.gradient(query_), block_of(total, 0, scale));
  ops::add_in_place(context.stream, context.params.gradient(key_), block_of(total, 1, scale));
  context.ready(key_);
  context.ready(query_);
}

}  // namespace trireme
