// SPDX-License-Identifier: Apache-2.0
// Transformer blocks, pre-norm or post-norm, and what stands before and after it, with the options
// in which the families differ: GPT-2 (gpt/gpt.h), Llama (llama/llama.h), ViT (vit/vit.h) and BERT
// (bert/bert.h) are settings of it.
#pragma once

#include <string_view>

#include "models/layers/norm.h"
#include "runtime/config/choices.h"
#include "runtime/nn/model.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/rope.h"

namespace trireme {

// How the learned positions start: the published normal, or sine waves.
enum class PositionInit : std::uint8_t { normal, sinusoidal };
[[nodiscard]] constexpr auto names_of(PositionInit /*key*/) {
  return std::to_array<Named<PositionInit>>(
      {{PositionInit::normal, "normal"}, {PositionInit::sinusoidal, "sinusoidal"}});
}
// `std` is that of the normal.
[[nodiscard]] Init init_of(PositionInit positions, double std);

inline constexpr std::int64_t vocabulary_multiple = 64;
[[nodiscard]] constexpr std::int64_t padded_vocabulary(std::int64_t vocabulary) {
  return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
}
// The attention kernels keep one head's row in registers.
inline constexpr std::int64_t max_head_size = 256;

enum class Biases : std::uint8_t { none, qkv, all };

struct TransformerOptions {
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;      // of queries
  std::int64_t kv_heads = 1;   // of keys and values; divides `heads`
  std::int64_t head_size = 1;  // free of hidden / heads
  std::int64_t intermediate = 1;
  std::string_view intermediate_name = "model.intermediate";  // in messages
  std::int64_t context = 1;                                   // rows of a sample
  std::string_view context_name = "model.context";            // in messages
  std::int64_t vocabulary = 2;
  double dropout = 0;  // on the embedding and on both residual branches

  NormStyle norm{};
  bool post_norm = false;        // norms behind the sums of residuals, none before the head
  bool branch_norms = false;     // beside those before branches, norms of what branches add
  bool embedding_norm = false;   // one behind the embedding too
  std::int64_t token_types = 0;  // rows of a table of which every token gets the first
  bool head_transform = false;   // one more layer before the head's norm
  bool head_bias = false;
  ops::ActivationKind activation = ops::ActivationKind::gelu_tanh;
  bool gated_mlp = false;
  Biases biases = Biases::all;
  bool qk_norm = false;  // RMS norm of each head of queries and keys, with the norm's epsilon
  bool causal = true;    // this and the next three as in ops::AttentionOptions
  std::int64_t window = 0;
  double attention_scale = 0;
  double soft_cap = 0;
  bool rotary = false;
  ops::RopeOptions rope{};  // heads are filled in
  // Every so many layers one attends to all tokens and turns by global_rope; 0: all are alike.
  std::int64_t global_every = 0;
  ops::RopeOptions global_rope{};
  bool learned_positions = false;
  bool tied_head = true;  // reads the token table
  // Of rows of the token table, where they enter: the root of the width, in the compute dtype.
  bool scaled_embedding = false;

  double init_std = 0.02;  // of matrices; those that end a branch: over sqrt(2 layers)
  // Hidden width over that of the model whose learning rate and init_std these are (muP: Yang & Hu
  // et al., "Tensor Programs V", 2022, table 8). Matrices between hidden activations start smaller
  // by its root and move slower by itself; what the head reads is divided by it, which the last
  // norm's scale does. 1: the standard parametrisation, to the bit.
  double width = 1;
  Init position_init{};

  // As they are of one layer, without global_every.
  [[nodiscard]] TransformerOptions of_layer(std::int64_t index) const;
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] Init matrix_init() const { return Init::normal(static_cast<float>(init_std)); }
  // Of matrices between hidden activations; residual: that end a branch.
  [[nodiscard]] Init hidden_init() const;
  [[nodiscard]] Init residual_init() const;
};

// Inputs (micro_batch, context) i32 tokens; targets the same shape.
[[nodiscard]] Chain transformer_chain(const TransformerOptions& options);

// Adds the blocks of a chain that has its first layer.
void add_blocks(Chain& chain, const TransformerOptions& options);

}  // namespace trireme
