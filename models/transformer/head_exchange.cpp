// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/head_exchange.h"

#include <algorithm>

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
HeadExchange::HeadExchange(Blueprint& blueprint, const ops::AttentionOptions& options,
                           std::int64_t size)
    : split_(blueprint.options().context),
      tensor_blocks_(blueprint.tensor().local()),
      samples_(blueprint.micro_batch()),
      rows_(split_.rows()),
      size_(size),
      heads_(options.heads),
      kv_heads_(options.kv_heads),
      own_heads_(heads_ / split_.blocks),
      own_kv_heads_(std::max<std::int64_t>(kv_heads_ / split_.blocks, 1)),
      copies_(own_kv_heads_ * split_.blocks / kv_heads_),
      narrow_(own_heads_ * size),
      wide_((own_heads_ + 2 * own_kv_heads_) * size) {
  TRIREME_EXPECTS(
      heads_ % split_.blocks == 0 && own_kv_heads_ * split_.blocks == copies_ * kv_heads_,
      "{} heads that share {} of keys in {} blocks", heads_, kv_heads_, split_.blocks);
  const bool training = blueprint.options().training;
  const std::int64_t keys = own_kv_heads_ * size, row = (heads_ + 2 * kv_heads_) * size;
  const Columns queries{0, narrow_, 0, narrow_};
  const Columns of_keys{narrow_, keys, heads_ * size, keys, copies_};
  const Columns of_values{narrow_ + keys, keys, (heads_ + kv_heads_) * size, keys, copies_};
  const std::vector<Columns> all{queries, of_keys, of_values};
  for (int block = 0; block < split_.local(); ++block) {
    pack_qkv_.push_back(pack_boxes(row, wide_, all, block));
    take_out_.push_back(
        ops::reversed(pack_boxes(heads_ * size, narrow_, {{0, narrow_, 0, narrow_}}, block)));
    pack_out_.push_back(pack_boxes(heads_ * size, 2 * narrow_, {{0, narrow_, 0, narrow_}}, block));
    pack_dout_.push_back(
        pack_boxes(heads_ * size, 2 * narrow_, {{narrow_, narrow_, 0, narrow_}}, block));
    const bool apart = copies_ > 1;
    take_queries_.push_back(
        ops::reversed(pack_boxes(row, wide_, apart ? std::vector{queries} : all, block)));
    if (apart) take_copies_.push_back(copy_boxes_of(block));
  }
  order_qkv_ = order_boxes(wide_, 0, wide_);
  spread_qkv_ = ops::reversed(order_qkv_);
  spread_out_ = ops::reversed(order_boxes(narrow_, 0, narrow_));
  order_both_out_ = order_boxes(2 * narrow_, 0, narrow_);
  order_both_dout_ = order_boxes(2 * narrow_, narrow_, narrow_);
  const std::int64_t n = split_.local(), V = tensor_blocks_;
  const std::int64_t most = training ? std::max(wide_, 2 * narrow_) : wide_;
  const Shape messages{split_.blocks * n * V, samples_ * rows_, most};
  sent_ = blueprint.shared(messages);
  if (split_.ranks > 1) received_ = blueprint.shared(messages);
  const auto bytes_of = [&](std::int64_t width) {
    return static_cast<double>(messages.rows() * width) *
           static_cast<double>(size_of(blueprint.compute()));
  };
  if (split_.ranks > 1)
    blueprint.traffic().context = {.exchanged = bytes_of(wide_), .returned = bytes_of(narrow_)};
  qkv_ = blueprint.shared({n * V, samples_, split_.positions, wide_});
  out_ = blueprint.shared({n * V, samples_, split_.positions, narrow_});
  if (!training) return;
  ops::AttentionOptions own = options;
  own.heads = own_heads_;
  own.kv_heads = own_kv_heads_;
  const BuildOptions& build = blueprint.options();
  workspace_ = blueprint.workspace(ops::attention_workspace_bytes(
      blueprint.device(), build.compute, samples_, split_.positions, size, own,
      build.reproducibility != Reproducibility::fast, build.separate_documents ? 2 * samples_ : 0));
  dqkv_ = blueprint.shared(qkv_.shape);
  dout_ = blueprint.shared(out_.shape);
  if (copies_ == 1) return;
  parts_ = blueprint.shared({copies_, V * samples_ * rows_, 2 * kv_heads_ * size});
  summed_ = blueprint.shared({V * samples_ * rows_, 2 * kv_heads_ * size});
  take_summed_ = {{.to = heads_ * size,
                   .counts = {1, 1, V * samples_ * rows_, 2 * kv_heads_ * size},
                   .to_strides = {0, 0, row},
                   .from_strides = {0, 0, 2 * kv_heads_ * size}}};
}

// From the rows of a block (V, B, t, row_width) to messages (K, n, V, B, t, width).
HeadExchange::Boxes HeadExchange::pack_boxes(std::int64_t row_width, std::int64_t width,
                                             const std::vector<Columns>& columns, int block) const {
  const std::int64_t rows = samples_ * rows_;
  Boxes boxes;
  for (std::int64_t heads = 0; heads < split_.blocks; ++heads) {
    const std::int64_t place = (heads * split_.local() + block) * tensor_blocks_ * rows * width;
    for (const Columns& part : columns)
      boxes.push_back({.to = place + part.to,
                       .from = part.first + heads / part.shared * part.each,
                       .counts = {1, tensor_blocks_, rows, part.count},
                       .to_strides = {0, rows * width, width},
                       .from_strides = {0, rows * row_width, row_width}});
  }
  return boxes;
}

// From messages to the copies (copies, V, B, t, keys and values of all heads).
HeadExchange::Boxes HeadExchange::copy_boxes_of(int block) const {
  const std::int64_t rows = samples_ * rows_, V = tensor_blocks_, width = 2 * kv_heads_ * size_;
  Boxes boxes;
  for (std::int64_t heads = 0; heads < split_.blocks; ++heads) {
    const std::int64_t place = (heads * split_.local() + block) * V * rows * wide_;
    for (const std::int64_t part : {0, 1})
      boxes.push_back(
          {.to = heads % copies_ * V * rows * width + (part * kv_heads_ + heads / copies_) * size_,
           .from = place + narrow_ + part * size_,
           .counts = {1, V, rows, size_},
           .to_strides = {0, rows * width, width},
           .from_strides = {0, rows * wide_, wide_}});
  }
  return boxes;
}

// From messages (C, n, n, V, B, t, width) to whole sequences (n, V, B, T, count).
HeadExchange::Boxes HeadExchange::order_boxes(std::int64_t width, std::int64_t first,
                                              std::int64_t count) const {
  const std::int64_t n = split_.local(), T = split_.positions, rows = samples_ * rows_;
  Boxes boxes;
  for (int block = 0; block < split_.blocks; ++block) {
    for (std::int64_t heads = 0; heads < n; ++heads) {
      const std::int64_t place = ((block / n * n + heads) * n + block % n) * tensor_blocks_ * rows;
      for (const ContextRun& run : split_.runs(block))
        boxes.push_back({.to = (heads * tensor_blocks_ * samples_ * T + run.position) * count,
                         .from = (place + run.row) * width + first,
                         .counts = {tensor_blocks_, samples_, run.rows, count},
                         .to_strides = {samples_ * T * count, T * count, count},
                         .from_strides = {rows * width, rows_ * width, width}});
    }
  }
  return boxes;
}

Tensor HeadExchange::messages(const Context& context, const Activation& of,
                              std::int64_t width) const {
  const Tensor all = context(of);
  return all.range(0, all.shape[0] * all.shape[1] * width);
}

void HeadExchange::swap(const Context& context, std::int64_t width, bool back) const {
  if (split_.ranks == 1) return;
  const Tensor sent = messages(context, sent_, width),
               received = messages(context, received_, width);
  context.context_group->all_to_all(context.stream, back ? received : sent, back ? sent : received);
}

Tensor HeadExchange::arrived(const Context& context, std::int64_t width) const {
  return messages(context, split_.ranks > 1 ? received_ : sent_, width);
}

bool HeadExchange::last(const Context& context) const {
  return context.block + 1 == split_.local();
}

void HeadExchange::begin(const Context& context, const AttentionTensors& block) const {
  ops::copy_boxes(context.stream, messages(context, sent_, wide_), block.qkv,
                  pack_qkv_[static_cast<std::size_t>(context.block)]);
  if (!last(context)) return;
  swap(context, wide_, /*back=*/false);
  ops::copy_boxes(context.stream, context(qkv_), arrived(context, wide_), order_qkv_);
}

// Of this rank's head block of the same number as the context's block of rows.
Tensor HeadExchange::of_head_block(const Context& context, const Activation& whole,
                                   std::int64_t v) const {
  const Shape& shape = whole.shape;
  return block_of(context(whole), context.block * tensor_blocks_ + v,
                  {shape[1], shape[2], shape[3]});
}

Tensor HeadExchange::lse(const AttentionTensors& block, std::int64_t v) const {
  return block_of(block.lse, v, {samples_, own_heads_, split_.positions});
}

ops::AttentionOptions HeadExchange::of_heads(const Context& context,
                                             const ops::AttentionOptions& all) const {
  ops::AttentionOptions options = all;
  options.heads = own_heads_;
  options.kv_heads = own_kv_heads_;
  options.document_starts = context.batch.sequence_starts;
  options.document_bounds = context.batch.sequence_bounds;
  if (workspace_.shape.rank() > 0) options.workspace = context(workspace_);
  if (!all.sinks.empty()) options.sinks = own_heads(context, all.sinks);
  return options;
}

Tensor HeadExchange::own_heads(const Context& context, const Tensor& values) const {
  if (values.empty()) return values;
  return values.range((split_.first() + context.block) * own_heads_, own_heads_);
}

void HeadExchange::forward(const Context& context, int step, const AttentionTensors& block) const {
  if (step == 1)
    return ops::copy_boxes(context.stream, block.out, messages(context, sent_, narrow_),
                           take_out_[static_cast<std::size_t>(context.block)]);
  for (std::int64_t v = 0; v < tensor_blocks_; ++v)
    ops::attention_forward(context.stream, of_head_block(context, out_, v), lse(block, v),
                           of_head_block(context, qkv_, v), of_heads(context, block.options(v)));
  if (!last(context)) return;
  ops::copy_boxes(context.stream, arrived(context, narrow_), context(out_), spread_out_);
  swap(context, narrow_, /*back=*/true);
}

void HeadExchange::backward(const Context& context, int step, const AttentionTensors& block) const {
  const auto at = static_cast<std::size_t>(context.block);
  if (step == 2) return take_gradients(context, block);
  if (step == 0) {
    const Tensor sent = messages(context, sent_, 2 * narrow_);
    ops::copy_boxes(context.stream, sent, block.out, pack_out_[at]);
    ops::copy_boxes(context.stream, sent, block.dout, pack_dout_[at]);
    if (!last(context)) return;
    swap(context, 2 * narrow_, /*back=*/false);
    const Tensor both = arrived(context, 2 * narrow_);
    ops::copy_boxes(context.stream, context(out_), both, order_both_out_);
    ops::copy_boxes(context.stream, context(dout_), both, order_both_dout_);
    return;
  }
  for (std::int64_t v = 0; v < tensor_blocks_; ++v)
    ops::attention_backward(
        context.stream, of_head_block(context, dqkv_, v), of_head_block(context, dout_, v),
        of_head_block(context, out_, v), lse(block, v), of_head_block(context, qkv_, v),
        of_heads(context, block.options(v)), own_heads(context, block.dsinks(v)));
  if (!last(context)) return;
  ops::copy_boxes(context.stream, arrived(context, wide_), context(dqkv_), spread_qkv_);
  swap(context, wide_, /*back=*/true);
}

void HeadExchange::take_gradients(const Context& context, const AttentionTensors& block) const {
  const auto at = static_cast<std::size_t>(context.block);
  const Tensor sent = messages(context, sent_, wide_);
  ops::copy_boxes(context.stream, block.dqkv, sent, take_queries_[at]);
  if (copies_ == 1) return;
  const Tensor parts = context(parts_), summed = context(summed_);
  ops::copy_boxes(context.stream, parts, sent, take_copies_[at]);
  ops::sum_blocks(context.stream, summed, parts);
  ops::copy_boxes(context.stream, block.dqkv, summed, take_summed_);
}

}  // namespace trireme
