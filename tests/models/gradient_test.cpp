// SPDX-License-Identifier: Apache-2.0
// Whole models: every parameter's gradient against finite differences of the loss.
#include <limits>

#include "models/bert/bert.h"
#include "models/gemma/gemma.h"
#include "models/gpt/gpt.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/llama/llama.h"
#include "models/vit/vit.h"
#include "tests/models/gradient_fixture.h"

namespace trireme {
namespace {

using test::ModelGradientTest;

std::vector<std::int32_t> random_tokens(std::size_t count, int limit, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens)
    token = static_cast<std::int32_t>(engine() % static_cast<unsigned>(limit));
  return tokens;
}

class GptGradientTest : public ModelGradientTest, public testing::WithParamInterface<int> {
 protected:
  [[nodiscard]] static BuildOptions training() {
    return {.micro_batch = 2,
            .training = true,
            .tensor = {.ranks = 1, .rank = 0, .blocks = GetParam()}};
  }
  // Context of 10 tokens, with room for 13.
  void expect_text_gradients_match(const Chain& chain) {
    Model model(*device_, chain, training());
    model.params().initialize(*compute_, 11);
    settle_choices(model.params());
    const test::Owned<std::int32_t> inputs(*device_, {2, 10}, random_tokens(20, 13, 1));
    const test::Owned<std::int32_t> targets(*device_, {2, 10}, random_tokens(20, 13, 2));
    const Batch batch{inputs.tensor(), targets.tensor(), {}, {}};

    expect_gradients_match(model, model.context(*compute_, batch, true), 1e-3, 0.01);
  }
  // The choice of experts has steps: biases far apart keep it the same while parameters move. Those
  // of balance if there are any, else the router's own, which three experts share.
  static void settle_choices(const ParamStore& params) {
    const auto& specs = params.layout().specs();
    const bool balanced =
        std::ranges::any_of(specs, [](const ParamSpec& spec) { return spec.balance_rate > 0; });
    for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
      const ParamSpec& spec = params.layout().spec({i});
      if (balanced ? spec.balance_rate == 0 : !spec.name.ends_with("router.bias")) continue;
      const Tensor biases = params.master({i});
      for (std::int64_t e = 0; e < biases.count(); ++e)
        biases.as<float>()[e] = static_cast<float>(balanced ? 30 * (e * 5 % 8) : e % 3 * 10);
    }
  }
};

TEST_P(GptGradientTest, MatchesFiniteDifferencesWithPaddedVocabularyAndTiedHead) {
  expect_text_gradients_match(
      gpt_chain({.layers = 2, .hidden = 32, .heads = 4, .context = 10, .vocabulary = 13}));
}

TEST_P(GptGradientTest, DrawsTheSameDropoutMaskInBackward) {
  Model model(
      *device_,
      gpt_chain(
          {.layers = 1, .hidden = 16, .heads = 4, .context = 6, .vocabulary = 9, .dropout = 0.4F}),
      training());
  model.params().initialize(*compute_, 11);
  const test::Owned<std::int32_t> inputs(*device_, {2, 6}, random_tokens(12, 9, 1));
  const test::Owned<std::int32_t> targets(*device_, {2, 6}, random_tokens(12, 9, 2));
  const test::Owned<std::int64_t> ids(*device_, {2}, {5, 77});
  const test::Owned<std::uint64_t> rng(*device_, {2}, {1, 2});
  const Batch batch{inputs.tensor(), targets.tensor(), ids.tensor(), {}};
  Context context = model.context(*compute_, batch, true);
  context.rng = rng.tensor();

  expect_gradients_match(model, context, 2e-3, 0.01);
}

TEST_P(GptGradientTest, OfDocumentsApartMatchFiniteDifferences) {
  Model model(*device_,
              gpt_chain({.layers = 2, .hidden = 32, .heads = 4, .context = 10, .vocabulary = 13}),
              training());
  model.params().initialize(*compute_, 11);
  const test::Owned<std::int32_t> inputs(*device_, {2, 10}, random_tokens(20, 13, 1));
  const test::Owned<std::int32_t> targets(*device_, {2, 10}, random_tokens(20, 13, 2));
  const test::Owned<std::int32_t> starts(
      *device_, {2, 10}, {0, 0, 0, 3, 3, 3, 3, 7, 8, 8, 0, 1, 1, 1, 1, 1, 1, 1, 1, 9});
  Batch batch{inputs.tensor(), targets.tensor(), {}, {}};
  batch.document_starts = starts.tensor();

  expect_gradients_match(model, model.context(*compute_, batch, true), 1e-3, 0.01);
}

TEST_P(GptGradientTest, OfALlamaMatchFiniteDifferences) {
  expect_text_gradients_match(llama_chain({.layers = 2,
                                           .hidden = 16,
                                           .heads = 8,
                                           .kv_heads = 4,
                                           .head_size = 4,
                                           .intermediate = 20,
                                           .context = 10,
                                           .vocabulary = 13,
                                           .init_std = 0.2,
                                           .qkv_bias = true,
                                           .qk_norm = true,
                                           .window = 6,
                                           .attention_soft_cap = 2.0,
                                           .rope_scaling = ops::RopeScaling::yarn,
                                           .rope_factor = 2,
                                           .rope_original_context = 8}));
}

TEST_P(GptGradientTest, OfAnOlmoMatchFiniteDifferences) {
  expect_text_gradients_match(llama_chain({.layers = 2,
                                           .hidden = 16,
                                           .heads = 8,
                                           .kv_heads = 4,
                                           .head_size = 4,
                                           .intermediate = 20,
                                           .context = 10,
                                           .vocabulary = 13,
                                           .init_std = 0.2,
                                           .attention_bias = true,
                                           .qk_norm_whole = true,
                                           .norm_after = true,
                                           .unrotated_every = 2}));
}

// For every way to weigh the chosen experts, beside a dense layer.
TEST_P(GptGradientTest, OfExpertsMatchFiniteDifferences) {
  using enum ops::RouterScore;
  for (const ops::RouterScore score : {softmax, softmax_of_chosen, sigmoid}) {
    for (const bool shared : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", name_of(score), shared ? " beside a shared MLP" : ""));
      LlamaOptions options{.layers = 3,
                           .hidden = 16,
                           .heads = 4,
                           .intermediate = 20,
                           .context = 10,
                           .vocabulary = 13,
                           .init_std = 0.4,
                           .experts = 8,
                           .experts_per_token = 3,
                           .expert_intermediate = 12,
                           .shared_intermediate = shared ? 8 : 0,
                           .dense_layers = {1},
                           .router = score,
                           .router_renormalize = shared,
                           .router_scale = 1.5,
                           .balance_rate = 0.1};
      if (score == sigmoid) {
        options.router_groups = 4;
        options.router_groups_kept = 2;
      }
      TransformerOptions model = transformer_options(options);
      model.experts.router_bias = model.experts.biases = !shared;
      expect_text_gradients_match(transformer_chain(model));
    }
  }
}

// A local layer and a global one.
TEST_P(GptGradientTest, OfAGemmaMatchFiniteDifferences) {
  expect_text_gradients_match(
      transformer_chain(transformer_options(GemmaOptions{.layers = 2,
                                                         .hidden = 16,
                                                         .heads = 8,
                                                         .kv_heads = 4,
                                                         .head_size = 4,
                                                         .intermediate = 20,
                                                         .context = 10,
                                                         .vocabulary = 13,
                                                         .init_std = 0.2,
                                                         .query_pre_attn_scalar = 3,
                                                         .window = 4,
                                                         .global_every = 2,
                                                         .rope_theta = 1000,
                                                         .rope_factor = 2})));
}

TEST_P(GptGradientTest, OfAGptOssMatchFiniteDifferences) {
  expect_text_gradients_match(
      transformer_chain(transformer_options(GptOssOptions{.layers = 2,
                                                          .hidden = 16,
                                                          .heads = 8,
                                                          .kv_heads = 4,
                                                          .head_size = 4,
                                                          .intermediate = 20,
                                                          .context = 10,
                                                          .vocabulary = 13,
                                                          .init_std = 0.3,
                                                          .window = 4,
                                                          .global_every = 2,
                                                          .rope_factor = 2,
                                                          .rope_original_context = 64,
                                                          .experts = 8,
                                                          .experts_per_token = 3})));
}

TEST_P(GptGradientTest, OfABertMatchFiniteDifferences) {
  expect_text_gradients_match(
      transformer_chain(transformer_options(BertOptions{.layers = 2,
                                                        .hidden = 16,
                                                        .heads = 4,
                                                        .intermediate = 20,
                                                        .context = 10,
                                                        .vocabulary = 13,
                                                        .init_std = 0.2,
                                                        .position_offset = 2})));
}

// A GPT-2, whose fused GELU an adapter separates, and a Llama.
TEST_P(GptGradientTest, OfLowRankFactorsMatchFiniteDifferences) {
  const Chain chains[] = {gpt_chain({.layers = 2,
                                     .hidden = 32,
                                     .heads = 4,
                                     .context = 10,
                                     .vocabulary = 13,
                                     .init_std = 0.2}),
                          llama_chain({.layers = 2,
                                       .hidden = 16,
                                       .heads = 8,
                                       .kv_heads = 4,
                                       .head_size = 4,
                                       .intermediate = 20,
                                       .context = 10,
                                       .vocabulary = 13,
                                       .init_std = 0.2})};
  for (const Chain& chain : chains) {
    BuildOptions options = training();
    options.adapters = {
        .rank = 3, .scale = 1.5F, .targets = {"qkv", "output", "expand", "contract"}};
    Model model(*device_, chain, options);
    ParamStore& params = model.params();
    params.initialize(*compute_, 11);
    int factors = 0;
    for (int i = 0; i < static_cast<int>(params.layout().specs().size()); ++i) {
      const ParamSpec& spec = params.layout().spec({i});
      ASSERT_EQ(spec.kind == ParamKind::weight, spec.name.find("lora_") != std::string::npos);
      factors += spec.kind == ParamKind::weight ? 1 : 0;
      if (!spec.name.ends_with("lora_b")) continue;
      EXPECT_EQ(test::values_of<float>(params.master({i})),
                std::vector<float>(static_cast<std::size_t>(spec.shape.count()), 0.0F));
      ops::fill_normal(*compute_, params.master({i}), 5, static_cast<std::uint64_t>(i), 0, 0, 0.3F);
    }
    EXPECT_EQ(factors, 2 * 4 * 2);
    EXPECT_EQ(params.layout().trained_elements(), params.gradients().whole().count());
    EXPECT_LT(params.layout().trained_elements(), params.layout().elements());
    const test::Owned<std::int32_t> inputs(*device_, {2, 10}, random_tokens(20, 13, 1));
    const test::Owned<std::int32_t> targets(*device_, {2, 10}, random_tokens(20, 13, 2));
    const Batch batch{inputs.tensor(), targets.tensor(), {}, {}};

    expect_gradients_match(model, model.context(*compute_, batch, true), 1e-3, 0.01);
  }
}

// Each part of a matrix with factors of its own, and dropout of their inputs.
TEST_P(GptGradientTest, OfLowRankFactorsOfPartsMatchFiniteDifferences) {
  BuildOptions options = training();
  options.adapters = {.rank = 3,
                      .scale = 1.5F,
                      .dropout = 0.3F,
                      .targets = {"query", "value", "gate", "up", "output"}};
  Model model(*device_,
              llama_chain({.layers = 2,
                           .hidden = 16,
                           .heads = 8,
                           .kv_heads = 4,
                           .head_size = 4,
                           .intermediate = 20,
                           .context = 10,
                           .vocabulary = 13,
                           .init_std = 0.2}),
              options);
  ParamStore& params = model.params();
  params.initialize(*compute_, 11);
  for (int i = 0; i < static_cast<int>(params.layout().specs().size()); ++i)
    if (params.layout().spec({i}).name.ends_with("lora_b"))
      ops::fill_normal(*compute_, params.master({i}), 5, static_cast<std::uint64_t>(i), 0, 0, 0.3F);
  EXPECT_GE(params.layout().find("blocks.1.attention.qkv.value.lora_b").index, 0);
  const test::Owned<std::int32_t> inputs(*device_, {2, 10}, random_tokens(20, 13, 1));
  const test::Owned<std::int32_t> targets(*device_, {2, 10}, random_tokens(20, 13, 2));
  const test::Owned<std::int64_t> ids(*device_, {2}, {7, 3});
  const test::Owned<std::uint64_t> rng(*device_, {2}, {1, 2});
  Context context =
      model.context(*compute_, {inputs.tensor(), targets.tensor(), ids.tensor(), {}}, true);
  context.rng = rng.tensor();

  expect_gradients_match(model, context, 1e-3, 0.01);
}

TEST_P(GptGradientTest, OfAVisionTransformerMatchFiniteDifferences) {
  const bool mean = GetParam() == 2;  // either pooling, either GELU
  Model model(*device_,
              vit_chain({.layers = 2,
                         .hidden = 16,
                         .heads = 4,
                         .intermediate = 20,
                         .init_std = 0.2,
                         .gelu = mean ? GeluForm::tanh : GeluForm::exact,
                         .patch = 3,
                         .pooling = mean ? Pooling::mean : Pooling::class_token,
                         .image_size = 3,
                         .image_width = mean ? 30 : 21,
                         .channels = 2,
                         .classes = 5},
                        {.random = false, .mean = {0.5F, 0.5F}, .stddev = {0.3F, 0.3F, 1, 1}}),
              training());
  model.params().initialize(*compute_, 11);
  const std::int64_t width = mean ? 30 : 21;
  std::vector<std::uint8_t> pixels;
  for (const std::int32_t value :
       random_tokens(static_cast<std::size_t>(2 * 3 * width * 2), 256, 1))
    pixels.push_back(static_cast<std::uint8_t>(value));
  const test::Owned<std::uint8_t> images(*device_, {2, 3, width, 2}, pixels);
  const test::Owned<std::int32_t> labels(*device_, {2}, {1, 4});
  const test::Owned<std::int64_t> ids(*device_, {2}, {0, 1}), epochs(*device_, {2}, {0, 0});
  const Batch batch{images.tensor(), labels.tensor(), ids.tensor(), epochs.tensor()};

  expect_gradients_match(model, model.context(*compute_, batch, true), 1e-3, 0.01);
}

INSTANTIATE_TEST_SUITE_P(TensorBlocks, GptGradientTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace trireme
