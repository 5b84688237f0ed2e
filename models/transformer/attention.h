// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/column_linear.h"
#include "models/transformer/context_attention.h"
#include "models/transformer/query_key_norms.h"
#include "models/transformer/transformer.h"
#include "runtime/ops/attention/attention.h"

namespace trireme {

// From normalised rows (B, T, C) to the heads' outputs: projection, normalisation and rotation of
// queries and keys, attention. A tensor block has heads / V query heads and kv_heads / V key heads;
// n blocks are local.
class SelfAttention {
 public:
  // Declares "attention.qkv" and, with qk_norm, "attention.query_norm" and "attention.key_norm";
  // with sinks "attention.sinks" (heads), not decayed.
  SelfAttention(Blueprint& blueprint, const TransformerOptions& options, const PartialSum& sum);

  [[nodiscard]] const Shape& projected_shape() const { return projected_.shape; }
  // (B, T, heads * head size / V), per block.
  [[nodiscard]] const Shape& attended_block() const { return attended_block_; }
  [[nodiscard]] Tensor attended(const Context& context) const { return context(attended_); }

  // For the writer of the normalised rows: destination of their largest magnitude, or absent.
  [[nodiscard]] Tensor amax(const Context& context) const { return qkv_.x_amax(context); }

  void forward(const Context& context, const Tensor& normed, const Tensor& normed_amax = {}) const {
    project(context, normed, normed_amax);
    attend(context);
  }
  // The first half of it, in the first part of a pass.
  void project(const Context& context, const Tensor& normed, const Tensor& normed_amax) const;
  // The second, in every part; true in the last one: `attended` is complete.
  bool attend(const Context& context) const;
  [[nodiscard]] int forward_parts() const { return cut_ ? 1 + cut_->forward_steps() : 1; }
  // In every part of backward: what it needs, with `again` also `attended` from the projection, if
  // that is not kept. The step of backward() that this part runs; below 0: none.
  [[nodiscard]] int prepare_backward(const Context& context, bool again) const;
  [[nodiscard]] int backward_parts(bool again) const {
    return cut_ ? 1 + (again ? cut_->forward_steps() : 0) + cut_->backward_steps() : 1;
  }
  // Recomputes `attended` for the weights' gradients.
  void attend_again(const Context& context) const;
  // dprojected = the projection's gradient, from the gradient of `attended`. True in the last step.
  bool backward(const Context& context, int step, const Tensor& dprojected,
                const Tensor& dattended) const;
  // From there to the local rows of the normalised input, and to the weights.
  void backward_input(const Context& context, const Tensor& dnormed, const Tensor& dprojected,
                      const Tensor& normed) const;
  void backward_weight(const Context& context, const Tensor& dprojected,
                       const Tensor& normed) const;

  void add_limits(ModelLimits& limits) const;

 private:
  void prepare(const Context& context) const;
  [[nodiscard]] ops::RopeOptions rotation(const Context& context) const;
  void differentiate(const Context& context, const Tensor& dprojected,
                     const Tensor& dattended) const;
  void attend_whole(const Context& context) const;
  [[nodiscard]] AttentionTensors tensors(const Context& context) const;
  // Of a pass that ranks share: caches the keys and values of the others' rows.
  void append_others(const Context& context) const;
  void attend_cached(const Context& context) const;
  [[nodiscard]] Tensor lse_block(const Context& context, std::int64_t b) const;
  // Absent without sinks; the gradient's also where they are frozen.
  [[nodiscard]] Tensor sinks_block(const Context& context, std::int64_t b) const;
  [[nodiscard]] Tensor dsinks_block(const Context& context, std::int64_t b) const;
  [[nodiscard]] bool trains_sinks(const Context& context) const {
    return sinks_.index >= 0 && context.params.trains(sinks_);
  }

  std::int64_t blocks_;  // n
  std::int64_t context_length_;
  bool split_backward_;
  ops::AttentionOptions options_;         // of one block
  std::optional<ops::RopeOptions> rope_;  // of one block
  ColumnLinear qkv_;
  std::unique_ptr<QueryKeyNorms> head_norms_;
  std::unique_ptr<ContextAttention> cut_;  // of sequences that are cut
  ContextSplit split_;
  ParamId sinks_{};
  Shape attended_block_;
  // projected: the product (n, B, T, (heads + 2 kv_heads) / V * D); prepared: attention's input,
  // the same memory unless heads are normalised. lse (n, B, heads / V, T).
  Activation projected_, prepared_, lse_{}, attended_;
  Activation workspace_{};        // of backward
  Activation dsinks_{};           // (n, heads / V) f32, with a split backward
  Activation keys_{}, values_{};  // (n, B, capacity, kv_heads / V * D): decoding models
  Activation everyones_{};        // (ranks * n, B, T, ...), like prepared: ranks share passes
};

}  // namespace trireme
