// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/projection_norms.h"

#include "models/transformer/head_norms.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

ParamId declare(Blueprint& blueprint, std::string_view part, std::int64_t channels) {
  return blueprint.parameter({.name = fmt::format("attention.{}_norm.weight", part),
                              .shape = {channels},
                              .init = Init::constant(1),
                              .shard_axis = 0});
}

}  // namespace

ProjectionNorms::ProjectionNorms(Blueprint& blueprint, const ops::ProjectionNormOptions& options,
                                 const Shape& packed)
    : options_(options),
      blocks_(packed[0]),
      block_{packed[1], packed[2], packed[3]},
      sums_{packed[1] * packed[2], 2},
      split_backward_(blueprint.options().split_backward) {
  const std::int64_t size = packed[3] / (options.heads + 2 * options.kv_heads);
  channels_ = {options.heads * size, options.kv_heads * size};
  query_ = declare(blueprint, "query", options.blocks * channels_[0]);
  key_ = declare(blueprint, "key", options.blocks * channels_[1]);
  squares_ = blueprint.keep(sums_, DType::f32);
  local_ = blueprint.scratch({blocks_, sums_[0], sums_[1]}, DType::f32);
  slopes_ = blueprint.scratch(sums_, DType::f32);
  const Shape partial{blocks_, channels_[0] + channels_[1]};
  partial_ = split_backward_ ? blueprint.keep(partial, DType::f32)
                             : blueprint.scratch(partial, DType::f32);
}

ops::ProjectionScales ProjectionNorms::scales(const Context& context, std::int64_t b) const {
  return {block_of(context.params.compute(query_), b, {channels_[0]}),
          block_of(context.params.compute(key_), b, {channels_[1]})};
}

ops::ProjectionScales ProjectionNorms::partials(const Context& context, std::int64_t b) const {
  const std::int64_t both = channels_[0] + channels_[1];
  const Tensor own = block_of(context(partial_), b, {both});
  return {own.range(0, channels_[0]), own.range(channels_[0], channels_[1])};
}

void ProjectionNorms::add_blocks(const Context& context, const Tensor& total,
                                 const Tensor& sums) const {
  ops::sum_blocks(context.stream, total, sums);
  if (context.tensor != nullptr) context.tensor->all_reduce(context.stream, total);
}

void ProjectionNorms::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  const Tensor squares = context(squares_), local = context(local_);
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::projection_norm_squares(context.stream, block_of(local, b, sums_), block_of(x, b, block_),
                                 options_);
  add_blocks(context, squares, local);
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::projection_norm_forward(context.stream, block_of(y, b, block_), block_of(x, b, block_),
                                 squares, scales(context, b), options_);
}

void ProjectionNorms::backward(const Context& context, const Tensor& dy, const Tensor& x) const {
  const Tensor squares = context(squares_), slopes = context(slopes_), local = context(local_);
  const Tensor partial = context(partial_);
  context.stream.device().fill_zero(context.stream, partial.data, partial.bytes());
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::projection_norm_slopes(context.stream, block_of(local, b, sums_), block_of(dy, b, block_),
                                block_of(x, b, block_), squares, scales(context, b), options_);
  add_blocks(context, slopes, local);
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::projection_norm_backward(context.stream, block_of(dy, b, block_), partials(context, b),
                                  block_of(x, b, block_), squares, slopes, scales(context, b),
                                  options_);
  if (!split_backward_) backward_weight(context);
}

void ProjectionNorms::backward_weight(const Context& context) const {
  if (!context.params.trains(query_)) return;
  const Tensor queries = context.params.gradient(query_), keys = context.params.gradient(key_);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const ops::ProjectionScales own = partials(context, b);
    ops::add_in_place(context.stream, block_of(queries, b, {channels_[0]}), own.queries);
    ops::add_in_place(context.stream, block_of(keys, b, {channels_[1]}), own.keys);
  }
  context.ready(key_);
  context.ready(query_);
}

std::unique_ptr<QueryKeyNorms> make_query_key_norms(Blueprint& blueprint,
                                                    const TransformerOptions& options,
                                                    const Shape& packed) {
  const std::int64_t blocks = blueprint.tensor().blocks;
  const std::int64_t heads = options.heads / blocks, kv_heads = options.kv_heads / blocks;
  const auto epsilon = static_cast<float>(options.norm.epsilon);
  if (options.qk_norm_whole)
    return std::make_unique<ProjectionNorms>(
        blueprint,
        ops::ProjectionNormOptions{
            .heads = heads, .kv_heads = kv_heads, .blocks = blocks, .epsilon = epsilon},
        packed);
  if (!options.qk_norm) return nullptr;
  return std::make_unique<HeadNorms>(
      blueprint,
      ops::HeadNormOptions{.heads = heads,
                           .kv_heads = kv_heads,
                           .epsilon = epsilon,
                           .offset = static_cast<float>(options.norm.offset)},
      packed);
}

}  // namespace trireme
