// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/query_key_norms.h"

#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

Shape scale_lengths(const ops::PackedNormOptions& options, std::int64_t width) {
  const std::int64_t size = width / (options.heads + 2 * options.kv_heads);
  if (!options.whole) return {size, size};
  return {options.heads * size, options.kv_heads * size};
}

}  // namespace

QueryKeyNorms::QueryKeyNorms(Blueprint& blueprint, const ops::PackedNormOptions& options,
                             const Shape& packed)
    : options_(options),
      blocks_(packed[0]),
      block_{packed[1], packed[2], packed[3]},
      sums_{packed[1] * packed[2], options.runs()},
      lengths_(scale_lengths(options, packed[3])),
      split_backward_(blueprint.splits_backward()) {
  const auto declare = [&](std::string_view part, std::int64_t length) {
    ParamSpec scale{.name = fmt::format("attention.{}_norm.weight", part),
                    .shape = {options.blocks * length},
                    .init = Init::constant(1 - options.offset)};
    if (options.whole) scale.shard_axis = 0;
    return blueprint.parameter(scale);
  };
  query_ = declare("query", lengths_[0]);
  key_ = declare("key", lengths_[1]);
  const Shape local{blocks_, sums_[0], sums_[1]}, partial{blocks_, lengths_[0] + lengths_[1]};
  rstd_ = blueprint.keep(options.whole ? sums_ : local, DType::f32);
  if (options.whole) {
    local_ = blueprint.scratch(local, DType::f32);
    total_ = blueprint.scratch(sums_, DType::f32);
  }
  partial_ = split_backward_ ? blueprint.keep(partial, DType::f32)
                             : blueprint.scratch(partial, DType::f32);
}

ops::PackedScales QueryKeyNorms::scales(const Context& context, std::int64_t b) const {
  const std::int64_t own = options_.whole ? b : 0;
  return {block_of(context.params.compute(query_), own, {lengths_[0]}),
          block_of(context.params.compute(key_), own, {lengths_[1]})};
}

ops::PackedScales QueryKeyNorms::partials(const Context& context, std::int64_t b) const {
  const Tensor own = block_of(context(partial_), b, {lengths_[0] + lengths_[1]});
  return {own.range(0, lengths_[0]), own.range(lengths_[0], lengths_[1])};
}

Tensor QueryKeyNorms::rstd(const Context& context, std::int64_t b) const {
  return block_of(context(rstd_), options_.whole ? 0 : b, sums_);
}

template <typename OfBlock>
Tensor QueryKeyNorms::sums(const Context& context, const OfBlock& of_block) const {
  if (!options_.whole) return {};
  const Tensor total = context(total_), local = context(local_);
  for (std::int64_t b = 0; b < blocks_; ++b)
    of_block(b, block_of(local, b, sums_));
  ops::sum_blocks(context.stream, total, local);
  if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, total);
  return total;
}

void QueryKeyNorms::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  const Tensor squares = sums(context, [&](std::int64_t b, const Tensor& to) {
    ops::packed_norm_sums(context.stream, to, block_of(x, b, block_), options_);
  });
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::packed_norm_forward(context.stream, block_of(y, b, block_), rstd(context, b),
                             block_of(x, b, block_), scales(context, b), options_, squares);
}

void QueryKeyNorms::backward(const Context& context, const Tensor& dy, const Tensor& x) const {
  const Tensor partial = context(partial_);
  context.stream.device().fill_zero(context.stream, partial.data, partial.bytes());
  const Tensor slopes = sums(context, [&](std::int64_t b, const Tensor& to) {
    ops::packed_norm_sums(context.stream, to, block_of(x, b, block_), options_,
                          block_of(dy, b, block_), rstd(context, b), scales(context, b));
  });
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::packed_norm_backward(context.stream, block_of(dy, b, block_), partials(context, b),
                              block_of(x, b, block_), rstd(context, b), scales(context, b),
                              options_, slopes);
  if (!split_backward_) backward_weight(context);
}

void QueryKeyNorms::backward_weight(const Context& context) const {
  if (!context.params.trains(query_) && !context.params.trains(key_)) return;
  const Tensor queries = context.params.gradient(query_), keys = context.params.gradient(key_);
  if (!options_.whole) {
    const Tensor partial = context(partial_), total = partial.range(0, lengths_[0] + lengths_[1]);
    if (blocks_ > 1) ops::sum_blocks(context.stream, total, partial);
    if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, total);
  }
  for (std::int64_t b = 0; b < (options_.whole ? blocks_ : 1); ++b) {
    const ops::PackedScales own = partials(context, b);
    ops::add_in_place(context.stream, block_of(queries, b, {lengths_[0]}), own.queries);
    ops::add_in_place(context.stream, block_of(keys, b, {lengths_[1]}), own.keys);
  }
  context.ready(key_);
  context.ready(query_);
}

std::unique_ptr<QueryKeyNorms> make_query_key_norms(Blueprint& blueprint,
                                                    const TransformerOptions& options,
                                                    const Shape& packed) {
  if (!options.qk_norm && !options.qk_norm_whole) return nullptr;
  const std::int64_t blocks = blueprint.tensor().blocks;
  const bool whole = options.qk_norm_whole;
  return std::make_unique<QueryKeyNorms>(
      blueprint,
      ops::PackedNormOptions{.heads = options.heads / blocks,
                             .kv_heads = options.kv_heads / blocks,
                             .whole = whole,
                             .blocks = whole ? blocks : 1,
                             .epsilon = static_cast<float>(options.norm.epsilon),
                             .offset = static_cast<float>(options.norm.offset)},
      packed);
}

}  // namespace trireme
