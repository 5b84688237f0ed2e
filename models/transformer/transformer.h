// SPDX-License-Identifier: Apache-2.0
// Transformer blocks, pre-norm or post-norm, with embedding and head, and the options in which the
// families differ: GPT-2 (gpt/gpt.h), Llama (llama/llama.h), ViT (vit/vit.h) and BERT (bert/bert.h)
// are settings of it.
#pragma once

#include <string_view>

#include "models/experts/expert_options.h"
#include "models/heads/head_options.h"
#include "models/layers/norm.h"
#include "runtime/config/choices.h"
#include "runtime/nn/model.h"
#include "runtime/ops/elementwise/activation.h"
#include "runtime/ops/elementwise/rope.h"

namespace trireme {

// Initial learned positions: the published normal distribution, or sine waves.
enum class PositionInit : std::uint8_t { normal, sinusoidal };
[[nodiscard]] constexpr auto names_of(PositionInit /*key*/) {
  return std::to_array<Named<PositionInit>>(
      {{PositionInit::normal, "normal"}, {PositionInit::sinusoidal, "sinusoidal"}});
}
// `std` is for the normal distribution.
[[nodiscard]] Init init_of(PositionInit positions, double std);

inline constexpr std::int64_t vocabulary_multiple = 64;
[[nodiscard]] constexpr std::int64_t padded_vocabulary(std::int64_t vocabulary) {
  return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
}
// The attention kernels keep one head's row in registers.
inline constexpr std::int64_t max_head_size = 256;

// attention: of queries, keys, values and attention's output.
enum class Biases : std::uint8_t { none, qkv, attention, all };

struct TransformerOptions {
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;      // of queries
  std::int64_t kv_heads = 1;   // of keys and values; divides `heads`
  std::int64_t head_size = 1;  // independent of hidden / heads
  std::int64_t intermediate = 1;
  std::string_view intermediate_name = "model.intermediate";  // in messages
  std::int64_t context = 1;                                   // rows of a sample
  std::string_view context_name = "model.context";            // in messages
  std::int64_t vocabulary = 2;
  double dropout = 0;  // on the embedding and on both residual branches

  NormStyle norm{};
  bool pre_norms = true;         // of the branches' inputs; without them branch_norms
  bool post_norm = false;        // norms after the residual sums, none before the head
  bool branch_norms = false;     // norms on the branches' outputs
  bool embedding_norm = false;   // a norm after the embedding
  std::int64_t token_types = 0;  // rows of the token type table; all tokens use the first
  bool head_transform = false;   // an additional layer before the head's norm
  bool head_bias = false;
  HeadChoice head{};  // of samples or classes of tokens (heads/row_head.h), or of the language
  ops::ActivationKind activation = ops::ActivationKind::gelu_tanh;
  bool gated_mlp = false;
  ExpertOptions experts{};  // in the place of the MLP, if any
  // Of them in every N-th layer, but not in these; other layers have the MLP.
  std::int64_t experts_every = 1;
  std::vector<std::int64_t> dense_layers{};
  Biases biases = Biases::all;
  bool fused_qkv = false;      // published as one tensor (ParamSpec::fused)
  bool qk_norm = false;        // RMS norm of each query and key head, with the norm's epsilon
  bool qk_norm_whole = false;  // or of all queries of a token, and of all keys
  bool causal = true;          // this and the next three as in ops::AttentionOptions
  std::int64_t window = 0;
  double attention_scale = 0;
  double soft_cap = 0;
  bool sinks = false;  // learned, one for each query head
  bool rotary = false;
  ops::RopeOptions rope{};           // heads are filled in
  std::int64_t unrotated_every = 0;  // every N-th layer does not rotate
  // Every N-th layer attends to all tokens and rotates by global_rope; 0: no such layers.
  std::int64_t global_every = 0;
  ops::RopeOptions global_rope{};
  bool learned_positions = false;
  std::int64_t position_offset = 0;  // unused rows at the front of their table
  bool tied_head = true;             // shares the token table
  // Multiplies embedded rows by the square root of the width, in the compute dtype.
  bool scaled_embedding = false;

  double init_std = 0.02;  // of matrices; at the end of a branch divided by sqrt(2 layers)
  // Hidden width divided by that of the model for which learning rate and init_std were tuned (muP:
  // Yang & Hu et al., "Tensor Programs V", 2022, table 8). For matrices between hidden activations
  // it divides the learning rate, and its root the initial std; it also divides the head's input,
  // through the last norm's scale. 1: exactly the standard parametrisation.
  double width = 1;
  Init position_init{};

  // The options of one layer, with global_every and experts resolved.
  [[nodiscard]] TransformerOptions of_layer(std::int64_t index) const;
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
  [[nodiscard]] bool attention_output_bias() const { return biases >= Biases::attention; }
  [[nodiscard]] Init matrix_init() const { return Init::normal(static_cast<float>(init_std)); }
  // For matrices between hidden activations; residual: those that end a branch.
  [[nodiscard]] Init hidden_init() const;
  [[nodiscard]] Init residual_init() const;
};

// Inputs (micro_batch, context) i32 tokens; targets the same shape.
[[nodiscard]] Chain transformer_chain(const TransformerOptions& options);

// Adds the blocks to a chain that has its first layer.
void add_blocks(Chain& chain, const TransformerOptions& options);

}  // namespace trireme
