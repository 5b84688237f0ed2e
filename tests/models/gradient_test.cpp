// SPDX-License-Identifier: Apache-2.0
// Whole models: every parameter's gradient against finite differences of the loss.
#include <limits>

#include "models/bert/bert.h"
#include "models/cosmoflow/cosmoflow.h"
#include "models/deepcam/deepcam.h"
#include "models/gemma/gemma.h"
#include "models/gpt/gpt.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/llama/llama.h"
#include "models/resnet/resnet.h"
#include "models/unet/unet.h"
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
  expect_text_gradients_match(transformer_chain(transformer_options(BertOptions{.layers = 2,
                                                                                .hidden = 16,
                                                                                .heads = 4,
                                                                                .intermediate = 20,
                                                                                .context = 10,
                                                                                .vocabulary = 13,
                                                                                .init_std = 0.2})));
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

class ResNetGradientTest : public ModelGradientTest, public testing::WithParamInterface<bool> {};

TEST_P(ResNetGradientTest, MatchesFiniteDifferences) {
  const bool bottleneck = GetParam();
  const std::int64_t size = bottleneck ? 33 : 9;
  Model model(
      *device_,
      resnet_chain(
          {.block = bottleneck ? ResNetBlockKind::bottleneck : ResNetBlockKind::basic,
           .stages = {1, 1},
           .width = 8,
           .stem = bottleneck ? ResNetStemKind::imagenet : ResNetStemKind::small,
           .image_size = size,
           .channels = bottleneck ? 3 : 1,
           .classes = 5},
          {.random = false, .mean = {0.5F, 0.5F, 0.5F, 0}, .stddev = {0.3F, 0.3F, 0.3F, 1}}),
      {.micro_batch = 3, .training = true});
  model.params().initialize(*compute_, 3);
  // The branches start at zero; give them something to do.
  for (int i = 0; i < static_cast<int>(model.params().layout().specs().size()); ++i) {
    const ParamSpec& spec = model.params().layout().specs()[static_cast<std::size_t>(i)];
    if (spec.kind == ParamKind::weight && spec.init.kind == Init::Kind::constant) {
      ops::fill_normal(*compute_, model.params().master({i}), 9, static_cast<std::uint64_t>(i), 0,
                       0.5F, 0.3F);
    }
  }
  const std::int64_t channels = bottleneck ? 3 : 1;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * size * size * channels));
  std::mt19937 engine(4);
  for (auto& pixel : pixels)
    pixel = static_cast<std::uint8_t>(engine());
  const test::Owned<std::uint8_t> images(*device_, {3, size, size, channels}, pixels);
  const test::Owned<std::int32_t> labels(*device_, {3}, {1, 4, 0});
  const test::Owned<std::int64_t> ids(*device_, {3}, {0, 1, 2}), epochs(*device_, {3}, {0, 0, 0});
  const Batch batch{images.tensor(), labels.tensor(), ids.tensor(), epochs.tensor()};

  expect_gradients_match(model, model.context(*compute_, batch, true), 3e-4,
                         0.03);  // ReLU has kinks
}

INSTANTIATE_TEST_SUITE_P(BasicAndBottleneck, ResNetGradientTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Bottleneck" : "Basic"; });

TEST_F(ModelGradientTest, OfCosmoFlowWithADroppedAndAMissingTarget) {
  constexpr std::int64_t size = 9, channels = 2, samples = 3;
  Model model(*device_,
              cosmoflow_chain(CosmoFlowOptions{.size = size,
                                               .channels = channels,
                                               .targets = 2,
                                               .filters = 4,
                                               .halvings = 2,
                                               .dense = {7, 5},
                                               .dropout = 0.3}),
              {.micro_batch = samples, .training = true});
  model.params().initialize(*compute_, 3);
  std::mt19937 engine(4);
  std::normal_distribution<float> normal;
  std::vector<float> voxels(static_cast<std::size_t>(samples * size * size * size * channels));
  for (auto& voxel : voxels)
    voxel = normal(engine);
  const test::Owned<float> volumes(*device_, {samples, size, size, size, channels}, voxels);
  const test::Owned<float> values(*device_, {samples, 2},
                                  {0.5F, -1, std::numeric_limits<float>::quiet_NaN(), 2, 0.1F, 0});
  const test::Owned<std::int64_t> ids(*device_, {3}, {0, 1, 2}), epochs(*device_, {3}, {0, 0, 0});
  const Batch batch{volumes.tensor(), values.tensor(), ids.tensor(), epochs.tensor()};
  const test::Owned<std::uint64_t> rng(*device_, {2}, {1, 0});
  Context context = model.context(*compute_, batch, true);
  context.rng = rng.tensor();

  expect_gradients_match(model, context, 3e-4, 0.03);  // LeakyReLU and maxima have kinks
}

class PixelGradientTest : public ModelGradientTest {
 protected:
  // Two samples of this shape with three classes, one pixel without a class.
  void expect_pixel_gradients_match(const Chain& chain, const Shape& shape, double step) {
    Model model(*device_, chain, {.micro_batch = 2, .training = true});
    model.poison_activations(true);
    model.params().initialize(*compute_, 3);
    std::mt19937 engine(4);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    for (auto& value : values)
      value = normal(engine);
    std::vector<std::int32_t> classes = random_tokens(static_cast<std::size_t>(shape.rows()), 3, 5);
    classes[1] = ignored_target;
    const test::Owned<float> fields(*device_, shape, values);
    const test::Owned<std::int32_t> targets(*device_, {2, shape.rows() / 2}, classes);
    const test::Owned<std::int64_t> ids(*device_, {2}, {0, 1}), epochs(*device_, {2}, {0, 0});
    const Batch batch{fields.tensor(), targets.tensor(), ids.tensor(), epochs.tensor()};

    expect_gradients_match(model, model.context(*compute_, batch, true), step,
                           0.03);  // ReLU and maxima have kinks
  }
};

struct UNetCase {
  const char* name;
  UNetOptions options;
  bool dice = false;
};

class UNetGradientTest : public PixelGradientTest, public testing::WithParamInterface<UNetCase> {};

TEST_P(UNetGradientTest, MatchesFiniteDifferences) {
  UNetOptions options = GetParam().options;
  options.channels = 2;
  options.classes = 3;
  options.levels = 2;
  options.class_weights = {1, 0.5, 2};
  TrainConfig train;
  if (GetParam().dice) train.loss = LossChoice::dice_cross_entropy;

  expect_pixel_gradients_match(unet_chain(options, train), options.input(2), 1e-4);
}

class UNetValueGradientTest : public ModelGradientTest,
                              public testing::WithParamInterface<UNetOptions> {};

TEST_P(UNetValueGradientTest, OfMapsOfValuesMatchesFiniteDifferences) {
  UNetOptions options = GetParam();
  options.channels = 2;
  options.values = 3;
  options.levels = 2;
  options.nonlinearity = UNetActivation::tanh;
  const Shape shape = options.input(2);
  for (const LossChoice loss : {LossChoice::mse, LossChoice::huber}) {
    TrainConfig train;
    train.loss = loss;
    train.huber_delta = 0.5;
    Model model(*device_, unet_chain(options, train), {.micro_batch = 2, .training = true});
    model.poison_activations(true);
    model.params().initialize(*compute_, 3);
    std::mt19937 engine(4);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    std::vector<float> wanted(static_cast<std::size_t>(shape.rows() * options.values));
    for (auto& value : values)
      value = normal(engine);
    for (auto& value : wanted)
      value = normal(engine);
    wanted[1] = std::numeric_limits<float>::quiet_NaN();
    const test::Owned<float> fields(*device_, shape, values);
    const test::Owned<float> targets(*device_, {2, shape.rows() / 2, options.values}, wanted);
    const test::Owned<float> weights(*device_, {2}, {0.5F, 2});
    const test::Owned<std::int64_t> ids(*device_, {2}, {0, 1}), epochs(*device_, {2}, {0, 0});
    Batch batch{fields.tensor(), targets.tensor(), ids.tensor(), epochs.tensor()};
    batch.weights = weights.tensor();

    EXPECT_EQ(model.head().targets, shape.rows() * options.values);
    expect_gradients_match(model, model.context(*compute_, batch, true), 1e-4, 0.03);
  }
}

const UNetOptions unet_image{.image_size = 15, .image_width = 22, .filters = 4};
const UNetOptions unet_volume{.image_size = 7, .image_width = 10, .depth = 5, .filters = 4};
const UNetOptions unet_of_mlperf{.image_size = 12,
                                 .image_width = 20,
                                 .depth = 8,
                                 .filters = 3,
                                 .widest = 5,
                                 .down = UNetDown::stride,
                                 .norm = UNetNormKind::instance};

UNetOptions with(UNetOptions options, UNetNormKind norm, UNetActivation nonlinearity) {
  options.norm = norm;
  options.norm_groups = 2;
  options.nonlinearity = nonlinearity;
  return options;
}

INSTANTIATE_TEST_SUITE_P(ImagesAndVolumes, UNetValueGradientTest,
                         testing::Values(unet_image, unet_volume));

INSTANTIATE_TEST_SUITE_P(
    Options, UNetGradientTest,
    testing::Values(UNetCase{"Images", unet_image}, UNetCase{"Volumes", unet_volume},
                    UNetCase{"Mlperfs", unet_of_mlperf, true},
                    UNetCase{"BatchNormAndTanh",
                             with(unet_image, UNetNormKind::batch, UNetActivation::tanh)},
                    UNetCase{"GroupNormAndLeakyRelu",
                             with(unet_volume, UNetNormKind::group, UNetActivation::leaky_relu)},
                    UNetCase{"StridesAndTanh",
                             with(unet_of_mlperf, UNetNormKind::instance, UNetActivation::tanh)}),
    [](const auto& info) { return info.param.name; });

TEST_F(PixelGradientTest, OfDeepCamMatchFiniteDifferences) {
  const DeepCamOptions options{.image_size = 83,
                               .image_width = 98,
                               .channels = 2,
                               .classes = 3,
                               .filters = 2,
                               .middle_blocks = 1,
                               .class_weights = {1, 0.5, 2}};

  expect_pixel_gradients_match(deepcam_chain(options), options.input(2), 5e-5);
}

}  // namespace
}  // namespace trireme
