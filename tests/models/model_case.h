// SPDX-License-Identifier: Apache-2.0
// Small models with everything that layers may get wrong: a padded vocabulary, dropout, ignored
// targets, label smoothing, biases and norms away from their initial values. They compute the same
// function for any layout.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/bert/bert.h"
#include "models/gpt/gpt.h"
#include "models/llama/llama.h"
#include "models/vit/vit.h"

namespace trireme::test {

inline const TransformerOptions small_gpt = transformer_options(GptOptions{
    .layers = 2, .hidden = 32, .heads = 4, .context = 12, .vocabulary = 50, .dropout = 0.2F});
// Queries that share keys, heads wider together than the residual stream, normalised, with a window
// and a soft cap, and an untied head.
inline const TransformerOptions small_llama =
    transformer_options(LlamaOptions{.layers = 2,
                                     .hidden = 32,
                                     .heads = 8,
                                     .kv_heads = 4,
                                     .head_size = 6,
                                     .intermediate = 44,
                                     .context = 12,
                                     .vocabulary = 50,
                                     .dropout = 0.2F,
                                     .qkv_bias = true,
                                     .qk_norm = true,
                                     .window = 7,
                                     .attention_soft_cap = 3.0,
                                     .rope_scaling = ops::RopeScaling::llama3,
                                     .rope_factor = 4,
                                     .rope_original_context = 16});
// The same with Gemma 3's blocks: norms after branches, scales that count from 1, a local and a
// global layer, a scaled embedding, a gated GELU, a tied head.
inline const TransformerOptions small_gemma = [] {
  TransformerOptions options = small_llama;
  options.norm.offset = 1;
  options.branch_norms = true;
  options.activation = ops::ActivationKind::gelu_tanh;
  options.biases = Biases::none;
  options.attention_scale = 0.5;
  options.soft_cap = 0;
  options.rope = {.base = 100};
  options.global_every = 2;
  options.global_rope = {.base = 1000, .scaling = ops::RopeScaling::linear, .factor = 2};
  options.tied_head = true;
  options.scaled_embedding = true;
  return options;
}();
// The same with experts: a dense layer, then one with a router of DeepSeek-V3 (groups, a shared
// MLP) and all losses.
inline const TransformerOptions small_experts = [] {
  TransformerOptions options = small_llama;
  options.init_std = 0.3;
  options.dense_layers = {0};
  options.experts = {.count = 8,
                     .intermediate = 12,
                     .shared_intermediate = 20,
                     .router = {.slots = 3,
                                .score = ops::RouterScore::sigmoid,
                                .renormalize = true,
                                .scale = 1.5F,
                                .groups = 4,
                                .groups_kept = 2},
                     .router_bias = true,
                     .biases = true,
                     .balance_loss = 0.1,
                     .sequence_balance_loss = 0.1,
                     .z_loss = 0.01,
                     .balance_rate = 0.01};
  return options;
}();
// A Llama with what gpt-oss has besides: sinks, biases of all of attention, a clamped SwiGLU, a
// local and a global layer, angles stretched from fractional pairs.
inline const TransformerOptions small_sinks = [] {
  TransformerOptions options = small_llama;
  options.activation = ops::ActivationKind::clamped_swiglu;
  options.biases = Biases::attention;
  options.qk_norm = false;
  options.soft_cap = 0;
  options.sinks = true;
  options.rope = {.base = 1000,
                  .scaling = ops::RopeScaling::yarn,
                  .factor = 4,
                  .high_freq_factor = 32,
                  .original_context = 64,
                  .whole_pairs = false};
  options.global_every = 2;
  options.global_rope = options.rope;
  return options;
}();
// A Llama with what OLMo 2 and SmolLM3 have besides: norms after branches alone, of all queries and
// of all keys, a layer without rotary positions; and biases of all of attention.
inline const TransformerOptions small_olmo = [] {
  TransformerOptions options = small_llama;
  options.init_std = 0.3;
  options.pre_norms = false;
  options.branch_norms = true;
  options.biases = Biases::attention;
  options.qk_norm = false;
  options.qk_norm_whole = true;
  options.soft_cap = 0;
  options.unrotated_every = 2;
  return options;
}();
// Rows of a sample that neither a warp nor the tensor ranks divide.
inline const VitOptions small_vit{.layers = 2,
                                  .hidden = 32,
                                  .heads = 4,
                                  .intermediate = 44,
                                  .dropout = 0.2F,
                                  .patch = 4,
                                  .distillation_token = true,
                                  .image_size = 4,
                                  .image_width = 40,
                                  .channels = 3,
                                  .classes = 7};
inline const TransformerOptions small_bert = transformer_options(BertOptions{.layers = 2,
                                                                             .hidden = 32,
                                                                             .heads = 4,
                                                                             .intermediate = 44,
                                                                             .context = 12,
                                                                             .vocabulary = 50,
                                                                             .dropout = 0.2F,
                                                                             .position_offset = 2});
// The same body with another head, over texts that end before the context.
inline TransformerOptions with_head(TransformerOptions options, const HeadChoice& head) {
  options.head = head;
  options.tied_head = false;
  return options;
}
// "BertClasses", "BertTokens", "BertLabels", "LlamaClasses", "LlamaValues"; nothing for others.
[[nodiscard]] std::optional<TransformerOptions> small_head(std::string_view family);
inline constexpr std::int64_t small_batch = 3;
inline const AdapterOptions small_adapters{
    .rank = 3, .scale = 1.25F, .targets = {"qkv", "output", "expand", "contract"}};

// A case's chain and inputs.
struct TestModel {
  TestModel(const TransformerOptions& text)  // NOLINT(google-explicit-constructor)
      : options(text) {}
  TestModel(const VitOptions& images);  // NOLINT(google-explicit-constructor)

  TransformerOptions options;
  std::optional<VitOptions> vit{};
};

// Counts reports of finished gradients by parameter name.
class CountingSink final : public GradientSink {
 public:
  explicit CountingSink(const ParamStore& params) : params_(params) {}
  void ready(ParamId id) override { ++counts_[params_.layout().spec(id).name]; }
  [[nodiscard]] const std::map<std::string, int>& counts() const { return counts_; }

 private:
  const ParamStore& params_;
  std::map<std::string, int> counts_;
};

// Bit patterns, for comparison of bits.
using Bits = std::vector<std::uint32_t>;

struct ModelResult {
  Bits losses, correct;
  std::map<std::string, Bits> gradients;  // as stored by the rank; not of frozen parameters
  std::map<std::string, int> reports;     // of finished gradients, over all passes
  double loss = 0;                        // mean
  std::size_t activation_bytes = 0;
};

class ModelCase {
 public:
  // `group` may be null on one rank.
  ModelCase(Device& device, Stream& compute, const TestModel& model, const BuildOptions& build,
            const TensorGroup* group = nullptr, bool separate_ties = false);

  [[nodiscard]] Model& model() { return model_; }
  [[nodiscard]] Context context(std::uint64_t step);
  // Documents of these lengths in every sample; only targets of number `counted` in each document
  // count.
  void separate(const std::vector<std::int64_t>& lengths, std::size_t counted);
  // Removes the document boundaries, but not the choice of targets.
  void forget_documents() { batch_.document_starts = {}; }
  // Changes the tokens of all other documents, or only of later ones.
  void change_other_tokens(std::size_t document, bool only_behind = false);
  // Forward and backward of `passes` micro-batches, gradients accumulated.
  [[nodiscard]] ModelResult run(int passes = 2);

 private:
  void fill_parameters();
  // Of sequences that are cut, zero at other ranks' positions.
  void append_by_position(ModelResult& result, const Context& context) const;
  void join_blocks();
  void fill_text(const TransformerOptions& options);
  void fill_targets(const TransformerOptions& options);
  void fill_images(const VitOptions& options);

  Device& device_;
  Stream& compute_;
  BuildOptions build_;
  const TensorGroup* group_;
  Model model_;
  Buffer inputs_, targets_, ids_, epochs_, rng_, starts_;
  Batch batch_{};
  std::vector<std::size_t> document_of_;  // by position of a sample
};

// The part that a rank of `split` stores of a gradient that one rank with the same blocks stores
// whole.
[[nodiscard]] Bits part_of(const Bits& whole, const ParamSpec& spec, const TensorSplit& split);

}  // namespace trireme::test
