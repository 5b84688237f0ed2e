// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/attention.h"

#include "models/layers/blocks.h"
#include "runtime/device/work_log.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

ColumnOptions projection(const TransformerOptions& options) {
  return {.outputs = (options.heads + 2 * options.kv_heads) * options.head_size,
          .parts = 3,
          .lead = static_cast<int>(options.group()),
          .fused = options.fused_qkv,
          .bias = options.biases != Biases::none,
          .part_names = {"query", "key", "value"}};
}

// Adds the micro-batch's documents, if they are separate.
template <typename Options>
Options of_documents(Options options, const Context& context) {
  options.document_starts = context.batch.document_starts;
  if constexpr (requires { options.document_bounds; }) {
    if (options.causal) options.document_bounds = context.batch.document_bounds;
  }
  return options;
}

}  // namespace

SelfAttention::SelfAttention(Blueprint& blueprint, const TransformerOptions& options,
                             const PartialSum& sum)
    : blocks_(blueprint.tensor().local()),
      context_length_(options.context),
      split_backward_(blueprint.splits_backward()),
      options_{.heads = options.heads / blueprint.tensor().blocks,
               .kv_heads = options.kv_heads / blueprint.tensor().blocks,
               .causal = options.causal,
               .window = options.window,
               .soft_cap = options.soft_cap,
               .scale = options.attention_scale},
      qkv_(blueprint, "attention.qkv", projection(options), options.hidden_init(), sum),
      split_(blueprint.options().context),
      attended_block_{qkv_.block_shape()[0], qkv_.block_shape()[1],
                      options_.heads * options.head_size} {
  TRIREME_EXPECTS(
      options.kv_heads % blueprint.tensor().blocks == 0 && options.heads % options.kv_heads == 0,
      "{} heads that share {} of keys in {} tensor blocks", options.heads, options.kv_heads,
      blueprint.tensor().blocks);
  if (options.rotary) {
    rope_ = options.rope;
    rope_->heads = options_.heads;
    rope_->kv_heads = options_.kv_heads;
  }
  projected_ = blueprint.keep(blocks_of(blocks_, qkv_.block_shape()));
  prepared_ = projected_;
  head_norms_ = make_query_key_norms(blueprint, options, projected_.shape);
  if (head_norms_) prepared_ = keep_or_recompute(blueprint, projected_.shape, blueprint.compute());
  if (options.sinks) {
    sinks_ = blueprint.parameter({.name = "attention.sinks",
                                  .shape = {options.heads},
                                  .init = options.matrix_init(),
                                  .shard_axis = 0});
    if (split_backward_) dsinks_ = blueprint.keep({blocks_, options_.heads}, DType::f32);
  }
  const Shape& block = attended_block_;
  attended_ = keep_or_recompute(blueprint, blocks_of(blocks_, block), blueprint.compute());
  if (blueprint.decodes()) {
    const std::int64_t capacity = blueprint.options().decode.capacity;
    const Shape cache{blocks_, block[0], capacity, options_.kv_heads * options.head_size};
    keys_ = blueprint.cache(cache);
    values_ = blueprint.cache(cache);
    if (const int ranks = blueprint.options().decode.ranks; ranks > 1)
      everyones_ = blueprint.scratch(blocks_of(ranks * blocks_, qkv_.block_shape()));
    return;
  }
  lse_ = keep_or_recompute(blueprint, {blocks_, block[0], options_.heads, block[1]}, DType::f32);
  if (split_.cuts()) {
    cut_ = make_context_attention(blueprint, options_, options.head_size);
    return;
  }
  const BuildOptions& build = blueprint.options();
  const std::int64_t documents = build.separate_documents ? 2 * block[0] : 0;
  workspace_ = blueprint.workspace(
      build.training ? ops::attention_workspace_bytes(
                           blueprint.device(), build.compute, block[0], block[1], options.head_size,
                           options_, build.reproducibility != Reproducibility::fast, documents)
                     : 0);
}

Tensor SelfAttention::lse_block(const Context& context, std::int64_t b) const {
  return block_of(context(lse_), b, {lse_.shape[1], lse_.shape[2], lse_.shape[3]});
}

Tensor SelfAttention::sinks_block(const Context& context, std::int64_t b) const {
  if (sinks_.index < 0) return {};
  return block_of(context.params.compute(sinks_), b, {options_.heads});
}

Tensor SelfAttention::dsinks_block(const Context& context, std::int64_t b) const {
  if (!trains_sinks(context)) return {};
  const Tensor all = split_backward_ ? context(dsinks_) : context.params.gradient(sinks_);
  return block_of(all, b, {options_.heads});
}

// Without normalised heads the rotation is in place and must not be repeated.
void SelfAttention::prepare(const Context& context) const {
  const Tensor prepared = context(prepared_);
  if (head_norms_) head_norms_->forward(context, prepared, context(projected_));
  if (!rope_) return;
  const ops::RopeOptions rope = rotation(context);
  const Tensor spans = context.decode == nullptr ? Tensor{} : context.decode->spans;
  for (std::int64_t b = 0; b < blocks_; ++b)
    ops::rope_forward(context.stream, block_of(prepared, b, qkv_.block_shape()), rope, spans,
                      context_length_);
}

void SelfAttention::append_others(const Context& context) const {
  const Tensor all = context(everyones_), spans = context.decode->all_spans;
  const Tensor keys = context(keys_), values = context(values_);
  const Shape cache{keys_.shape[1], keys_.shape[2], keys_.shape[3]};
  context.context_group->all_gather(context.stream, context(prepared_), all);
  for (std::int64_t rank = 0; rank < spans.shape[0]; ++rank) {
    if (rank == context.context_group->rank()) continue;
    for (std::int64_t b = 0; b < blocks_; ++b)
      ops::attention_append(context.stream, block_of(keys, b, cache), block_of(values, b, cache),
                            block_of(all, rank * blocks_ + b, qkv_.block_shape()),
                            block_of(spans, rank, context.decode->spans.shape), options_);
  }
}

void SelfAttention::attend_cached(const Context& context) const {
  if (everyones_.shape.rank() > 0) append_others(context);
  const Tensor attended = context(attended_), prepared = context(prepared_);
  const Tensor keys = context(keys_), values = context(values_);
  const Shape cache{keys_.shape[1], keys_.shape[2], keys_.shape[3]};
  ops::AttentionOptions options = options_;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    options.sinks = sinks_block(context, b);
    ops::attention_cached_forward(context.stream, block_of(attended, b, attended_block_),
                                  block_of(keys, b, cache), block_of(values, b, cache),
                                  block_of(prepared, b, qkv_.block_shape()), context.decode->spans,
                                  options);
  }
}

ops::RopeOptions SelfAttention::rotation(const Context& context) const {
  ops::RopeOptions rope = of_documents(*rope_, context);
  rope.runs = row_runs(split_, context.block);
  return rope;
}

void SelfAttention::attend_whole(const Context& context) const {
  const Tensor attended = context(attended_), prepared = context(prepared_);
  ops::AttentionOptions options = of_documents(options_, context);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    options.sinks = sinks_block(context, b);
    ops::attention_forward(context.stream, block_of(attended, b, attended_block_),
                           lse_block(context, b), block_of(prepared, b, qkv_.block_shape()),
                           options);
  }
}

AttentionTensors SelfAttention::tensors(const Context& context) const {
  const auto options = [this, &context](std::int64_t b) {
    ops::AttentionOptions of_block = of_documents(options_, context);
    of_block.sinks = sinks_block(context, b);
    return of_block;
  };
  return {.qkv = context(prepared_),
          .out = context(attended_),
          .lse = context(lse_),
          .options = options,
          .dsinks = [this, &context](std::int64_t b) { return dsinks_block(context, b); }};
}

void SelfAttention::project(const Context& context, const Tensor& normed,
                            const Tensor& normed_amax) const {
  qkv_.forward(context, context(projected_), normed, normed_amax);
  prepare(context);
  if (cut_) cut_->begin(context, tensors(context));
}

bool SelfAttention::attend(const Context& context) const {
  if (!cut_) {
    context.decode == nullptr ? attend_whole(context) : attend_cached(context);
    return true;
  }
  if (context.part > 0) cut_->forward(context, context.part - 1, tensors(context));
  return context.part == cut_->forward_steps();
}

void SelfAttention::attend_again(const Context& context) const {
  const RepeatedWork repeated;
  if (head_norms_) prepare(context);
  attend_whole(context);
}

int SelfAttention::prepare_backward(const Context& context, bool again) const {
  if (!cut_) {
    if (again) attend_again(context);
    return 0;
  }
  const int forward_steps = again ? cut_->forward_steps() : 0;
  if (context.part == 0) {
    if (again && head_norms_) prepare(context);
    cut_->begin(context, tensors(context));
  } else if (context.part <= forward_steps) {
    const RepeatedWork repeated;
    cut_->forward(context, context.part - 1, tensors(context));
  }
  return context.part - 1 - forward_steps;
}

bool SelfAttention::backward(const Context& context, int step, const Tensor& dprojected,
                             const Tensor& dattended) const {
  const bool later = split_backward_ && trains_sinks(context);
  if (later && step == 0) {
    const Tensor dsinks = context(dsinks_);
    context.stream.device().fill_zero(context.stream, dsinks.data, dsinks.bytes());
  }
  if (cut_) {
    AttentionTensors block = tensors(context);
    block.dqkv = dprojected;
    block.dout = dattended;
    cut_->backward(context, step, block);
    if (step + 1 < cut_->backward_steps()) return false;
  } else {
    differentiate(context, dprojected, dattended);
  }
  for (std::int64_t b = 0; rope_ && b < blocks_; ++b)
    ops::rope_backward(context.stream, block_of(dprojected, b, qkv_.block_shape()),
                       rotation(context));
  if (trains_sinks(context) && !later) context.ready(sinks_);
  if (head_norms_) head_norms_->backward(context, dprojected, context(projected_));
  return true;
}

void SelfAttention::differentiate(const Context& context, const Tensor& dprojected,
                                  const Tensor& dattended) const {
  const Tensor attended = context(attended_), prepared = context(prepared_);
  const Shape &narrow = attended_block_, &wide = qkv_.block_shape();
  ops::AttentionOptions options = of_documents(options_, context);
  options.workspace = context(workspace_);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    options.sinks = sinks_block(context, b);
    ops::attention_backward(context.stream, block_of(dprojected, b, wide),
                            block_of(dattended, b, narrow), block_of(attended, b, narrow),
                            lse_block(context, b), block_of(prepared, b, wide), options,
                            dsinks_block(context, b));
  }
}

void SelfAttention::backward_input(const Context& context, const Tensor& dnormed,
                                   const Tensor& dprojected, const Tensor& normed) const {
  qkv_.backward(context, dnormed, dprojected, normed);
}

void SelfAttention::backward_weight(const Context& context, const Tensor& dprojected,
                                    const Tensor& normed) const {
  if (trains_sinks(context)) {
    const Tensor gradient = context.params.gradient(sinks_);
    ops::add_in_place(context.stream, gradient, context(dsinks_).reshaped(gradient.shape));
    context.ready(sinks_);
  }
  if (head_norms_) head_norms_->backward_weight(context);
  qkv_.backward_weight(context, dprojected, normed);
}

void SelfAttention::add_limits(ModelLimits& limits) const {
  limits.tensor.push_back({options_.heads * blocks_, "model.heads"});
  if (options_.kv_heads != options_.heads)
    limits.tensor.push_back({options_.kv_heads * blocks_, "model.kv_heads"});
  limits.documents = options_.causal;
  if (!options_.causal) return;
  limits.positions.value = context_length_;
  limits.attention_heads = options_.heads * blocks_;
  limits.attention_kv_heads = options_.kv_heads * blocks_;
}

}  // namespace trireme
