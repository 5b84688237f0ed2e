// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/key_gather.h"

#include <algorithm>

#include "models/layers/blocks.h"
#include "runtime/ops/attention/attention_part.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

// The largest divisor of `heads` that is at most `most`.
std::int64_t heads_of_group(std::int64_t heads, std::int64_t most) {
  std::int64_t found = 1;
  for (std::int64_t each = 1; each <= std::min(heads, most); ++each)
    if (heads % each == 0) found = each;
  return found;
}

}  // namespace

KeyGather::KeyGather(Blueprint& blueprint, const ops::AttentionOptions& options, std::int64_t size)
    : split_(blueprint.options().context),
      samples_(blueprint.micro_batch()),
      rows_(split_.rows()),
      key_heads_(heads_of_group(options.kv_heads, options.kv_heads / split_.blocks)),
      width_(key_heads_ * size),
      projected_((options.heads + 2 * options.kv_heads) * size),
      groups_of_block_(static_cast<int>(options.kv_heads / key_heads_)),
      groups_(static_cast<int>(blueprint.tensor().local()) * groups_of_block_) {
  find_boxes(options, size);
  const std::int64_t n = split_.local(), K = split_.blocks, B = samples_, T = split_.positions;
  own_ = blueprint.shared({groups_, n, B * rows_, 2 * width_});
  regions_ = blueprint.shared({split_.ranks > 1 ? 3 : 1, K, B * rows_, 2 * width_});
  const auto values = static_cast<double>(groups_ * 2 * B * T * width_);
  if (split_.ranks > 1)
    blueprint.traffic().context = {
        .gathered = values * static_cast<double>(size_of(blueprint.compute())),
        .reduced = values * sizeof(float),
        .groups = static_cast<double>(groups_)};
  if (!blueprint.options().training) return;
  std::size_t workspace = 0;
  for (int block = split_.first(); block < split_.first() + n; ++block)
    for (const ContextRun& run : split_.runs(block))
      workspace =
          std::max(workspace, ops::attention_part_workspace_bytes(
                                  blueprint.device(), blueprint.compute(), B,
                                  {.row = run.row, .rows = run.rows, .position = run.position},
                                  key_heads_, size, options,
                                  blueprint.options().reproducibility != Reproducibility::fast));
  workspace_ = blueprint.workspace(workspace);
  partial_ = blueprint.shared({n, 2 * B, T, width_}, DType::f32);
  taken_ = blueprint.shared({n, B * rows_, 2 * width_}, DType::f32);
  if (blueprint.compute() != DType::f32) rounded_ = blueprint.scratch({B * rows_, 2 * width_});
}

void KeyGather::find_boxes(const ops::AttentionOptions& options, std::int64_t size) {
  for (int group = 0; group < groups_of_block_; ++group) {
    Boxes boxes;
    for (const std::int64_t part : {0, 1})
      boxes.push_back({.to = part * width_,
                       .from = (options.heads + part * options.kv_heads + key_head(group)) * size,
                       .counts = {1, 1, samples_ * rows_, width_},
                       .to_strides = {0, 0, 2 * width_},
                       .from_strides = {0, 0, projected_}});
    unpacks_.push_back(ops::reversed(boxes));
    packs_.push_back(std::move(boxes));
  }
  for (int block = 0; block < split_.blocks; ++block) {
    for (const ContextRun& run : split_.runs(block)) {
      ops::BoxCopy box{.to = run.position * width_,
                       .from = (block * samples_ * rows_ + run.row) * 2 * width_,
                       .counts = {1, samples_, run.rows, width_},
                       .to_strides = {0, split_.positions * width_, width_},
                       .from_strides = {0, rows_ * 2 * width_, 2 * width_}};
      order_keys_.push_back(box);
      box.from += width_;
      order_values_.push_back(box);
    }
  }
  spread_keys_ = ops::reversed(order_keys_);
  spread_values_ = ops::reversed(order_values_);
}

// (n, B, t, keys and values).
Tensor KeyGather::own(const Context& context, int group) const {
  const Tensor all = context(own_);
  return block_of(all, group, {all.shape[1], all.shape[2], all.shape[3]});
}

Tensor KeyGather::region(const Context& context, int index) const {
  return block_of(context(regions_), index, {split_.blocks, samples_ * rows_, 2 * width_});
}

Tensor KeyGather::gathered(const Context& context, int group) const {
  return split_.ranks > 1 ? region(context, group % 2 * 2) : own(context, group);
}

Tensor KeyGather::in_order(const Context& context, int part) const {
  const Tensor both = region(context, split_.ranks > 1 ? 1 : 0);
  return block_of(both, part, {samples_, split_.positions, width_});
}

// In the place of what attention has read by then: this group's keys and values, in both orders.
Tensor KeyGather::sums(const Context& context, int group) const {
  if (split_.ranks == 1) return context(taken_);
  const Tensor place = region(context, group % 2);
  return {place.data, DType::f32, place.shape};
}

void KeyGather::begin(const Context& context, const AttentionTensors& block) const {
  for (int group = 0; group < groups_; ++group) {
    const Shape rows{samples_ * rows_, 2 * width_};
    ops::copy_boxes(context.stream, block_of(own(context, group), context.block, rows),
                    block_of(block.qkv, tensor_block(group), {samples_, rows_, projected_}),
                    packs_[static_cast<std::size_t>(group % groups_of_block_)]);
  }
}

void KeyGather::start(const Context& context, int group) const {
  if (split_.ranks == 1 || group == groups_) return;
  context.context_group->start_all_gather(context.stream, own(context, group),
                                          gathered(context, group));
}

void KeyGather::gather(const Context& context, int group) const {
  if (group == 0) start(context, 0);
  if (split_.ranks > 1) context.context_group->finish(context.stream);
  start(context, group + 1);
  const Tensor all = gathered(context, group);
  ops::copy_boxes(context.stream, in_order(context, 0), all, order_keys_);
  ops::copy_boxes(context.stream, in_order(context, 1), all, order_values_);
}

void KeyGather::forward(const Context& context, int step, const AttentionTensors& block) const {
  if (context.block == 0) gather(context, step);
  const std::int64_t v = tensor_block(step);
  const ops::AttentionOptions options = block.options(v);
  const std::int64_t width = options.heads * (projected_ / (options.heads + 2 * options.kv_heads));
  for (const ContextRun& run : split_.runs(split_.first() + context.block))
    ops::attention_part_forward(context.stream, block_of(block.out, v, {samples_, rows_, width}),
                                block_of(block.lse, v, {samples_, options.heads, rows_}),
                                block_of(block.qkv, v, {samples_, rows_, projected_}),
                                in_order(context, 0), in_order(context, 1),
                                {run.row, run.rows, run.position, key_head(step)}, options);
}

void KeyGather::backward(const Context& context, int step, const AttentionTensors& block) const {
  if (step > 0) take_gradients(context, step - 1, block.dqkv);
  if (step == groups_) return;
  const Tensor partial = context(partial_);
  if (context.block == 0) {
    gather(context, step);
    context.stream.device().fill_zero(context.stream, partial.data, partial.bytes());
  }
  const std::int64_t v = tensor_block(step), T = split_.positions;
  ops::AttentionOptions options = block.options(v);
  options.workspace = context(workspace_);
  const std::int64_t width = options.heads * (projected_ / (options.heads + 2 * options.kv_heads));
  const Shape narrow{samples_, rows_, width}, wide{samples_, rows_, projected_};
  const auto gradient = [&](int part) {
    return block_of(partial, 2 * context.block + part, {samples_, T, width_});
  };
  for (const ContextRun& run : split_.runs(split_.first() + context.block))
    ops::attention_part_backward(
        context.stream, block_of(block.dqkv, v, wide), gradient(0), gradient(1),
        block_of(block.dout, v, narrow), block_of(block.out, v, narrow),
        block_of(block.lse, v, {samples_, options.heads, rows_}), block_of(block.qkv, v, wide),
        in_order(context, 0), in_order(context, 1),
        {run.row, run.rows, run.position, key_head(step)}, options, block.dsinks(v));
  if (context.block + 1 == split_.local()) sum_gradients(context, step);
}

// Of a group: the tree over this rank's blocks, then over ranks, which each take their own rows.
void KeyGather::sum_gradients(const Context& context, int group) const {
  const Tensor partial = context(partial_), sums = this->sums(context, group);
  const std::int64_t n = split_.local(), half = samples_ * split_.positions * width_;
  const Tensor total = partial.range(0, 2 * half);
  if (n > 1) ops::sum_blocks(context.stream, total, partial.reshaped({n, 2 * half}));
  ops::copy_boxes(context.stream, sums, total.range(0, half), spread_keys_);
  ops::copy_boxes(context.stream, sums, total.range(half, half), spread_values_);
  if (split_.ranks > 1)
    context.context_group->reduce_scatter(context.stream, sums, context(taken_));
}

void KeyGather::take_gradients(const Context& context, int group, const Tensor& dqkv) const {
  const Shape rows{samples_ * rows_, 2 * width_};
  Tensor own = block_of(context(taken_), context.block, rows);
  if (dqkv.dtype != DType::f32) {
    const Tensor rounded = context(rounded_);
    ops::cast(context.stream, rounded, own);
    own = rounded;
  }
  ops::copy_boxes(context.stream,
                  block_of(dqkv, tensor_block(group), {samples_, rows_, projected_}), own,
                  unpacks_[static_cast<std::size_t>(group % groups_of_block_)]);
}

}  // namespace trireme
