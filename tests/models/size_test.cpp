// SPDX-License-Identifier: Apache-2.0
// Parameter counts of well-known sizes, from the declarations alone.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/config.h"
#include "models/cosmoflow/cosmoflow.h"
#include "models/deepcam/deepcam.h"
#include "models/gpt/gpt.h"
#include "models/registry.h"
#include "models/resnet/resnet.h"
#include "models/unet/unet.h"
#include "models/vit/vit.h"

namespace trireme {
namespace {

std::int64_t weights_of(const Chain& chain) {
  std::int64_t sum = 0;
  for (const LayerSummary& layer : summarize(chain, DeviceType::cpu, {})) {
    for (const ParamSpec& spec : layer.params)
      sum += spec.kind == ParamKind::weight && !spec.is_copy() ? spec.shape.count() : 0;
  }
  return sum;
}

std::int64_t gpt_weights(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  const auto chain = gpt_chain(
      {.layers = layers, .hidden = hidden, .heads = heads, .context = 1024, .vocabulary = 50257});
  return weights_of(chain) - (50304 - 50257) * hidden;  // without the padding of the vocabulary
}

TEST(GptSizes, AreThoseOfTheGpt2Family) {
  EXPECT_EQ(gpt_weights(12, 768, 12), 124'439'808);
  EXPECT_EQ(gpt_weights(24, 1024, 16), 354'823'168);
  EXPECT_EQ(gpt_weights(36, 1280, 20), 774'030'080);
  EXPECT_EQ(gpt_weights(48, 1600, 25), 1'557'611'200);
}

// Table 8 of Tensor Programs V, of four times the base width.
TEST(WidthTransfer, ScalesOnlyTheTablesParameters) {
  const auto specs_of = [](std::int64_t base) {
    std::map<std::string, ParamSpec> specs;
    const GptOptions options{.layers = 2, .hidden = 64, .heads = 4, .mup_base_width = base};
    for (const LayerSummary& layer : summarize(gpt_chain(options), DeviceType::cpu, {})) {
      for (const ParamSpec& spec : layer.params)
        specs[spec.name] = spec;
    }
    return specs;
  };
  const auto standard = specs_of(0), same = specs_of(64), wide = specs_of(16);
  for (const auto& [name, spec] : wide) {
    const Init& plain = standard.at(name).init;
    EXPECT_EQ(same.at(name).init.a, plain.a) << name;
    EXPECT_EQ(same.at(name).init.b, plain.b) << name;
    EXPECT_EQ(same.at(name).init.rate, 1.0F) << name;
    const bool hidden = spec.hidden, last = name.starts_with("final_norm");
    EXPECT_EQ(spec.init.rate, hidden || last ? 0.25F : 1.0F) << name;
    EXPECT_FLOAT_EQ(spec.init.b, hidden ? plain.b / 2 : plain.b) << name;
    EXPECT_EQ(spec.init.a, last ? plain.a / 4 : plain.a) << name;
  }
  EXPECT_TRUE(wide.at("blocks.1.attention.output.weight").hidden);
  EXPECT_FALSE(wide.at("embedding.token.weight").hidden);
}

// Weights of a config in configs/; none of these vocabularies is padded.
std::int64_t weights_of_config(const std::string& name) {
  return weights_of(make_chain(load_config("configs/" + name + ".yaml", {})));
}

TEST(LlamaSizes, AreThoseOfThePublishedModels) {
  EXPECT_EQ(weights_of_config("llama3_2_1b"), 1'235'814'400);
  EXPECT_EQ(weights_of_config("llama3_8b"), 8'030'261'248);
  EXPECT_EQ(weights_of_config("llama3_70b"), 70'553'706'496);
  EXPECT_EQ(weights_of_config("qwen2_5_7b"), 7'615'616'512);
  EXPECT_EQ(weights_of_config("qwen3_0_6b"), 596'049'920);
}

// As transformers' modules of the published config.json.
TEST(ExpertSizes, AreThoseOfThePublishedModels) {
  EXPECT_EQ(weights_of_config("qwen3_30b_a3b"), 30'532'122'624);
  EXPECT_EQ(weights_of_config("mixtral_8x7b"), 46'702'792'704);
  EXPECT_EQ(weights_of_config("gpt_oss_20b"), 20'914'757'184);
  EXPECT_EQ(weights_of_config("mlperf_gpt_oss_20b"), 20'495'244'864);
}

std::int64_t resnet_weights(ResNetBlockKind block, std::vector<std::int64_t> stages) {
  return weights_of(resnet_chain({.block = block, .stages = std::move(stages)}));
}

TEST(ResNetSizes, AreThoseOfThePublishedModels) {
  EXPECT_EQ(resnet_weights(ResNetBlockKind::basic, {2, 2, 2, 2}), 11'689'512);
  EXPECT_EQ(resnet_weights(ResNetBlockKind::bottleneck, {3, 4, 6, 3}), 25'557'032);
  EXPECT_EQ(resnet_weights(ResNetBlockKind::basic, {3, 4, 6, 3}), 21'797'672);
  EXPECT_EQ(resnet_weights(ResNetBlockKind::bottleneck, {3, 4, 23, 3}), 44'549'160);
  EXPECT_EQ(resnet_weights(ResNetBlockKind::bottleneck, {3, 8, 36, 3}), 60'192'808);
}

TEST(ModelSize, CosmoFlowHasThePublishedSize) {
  EXPECT_EQ(weights_of(cosmoflow_chain(CosmoFlowOptions{.size = 128, .channels = 4})), 8'907'556);
  EXPECT_EQ(weights_of(cosmoflow_chain(CosmoFlowOptions{.size = 32, .channels = 4})), 4'778'788);
}

// MLPerf's has one classifier of 1^3 with a bias, as ours.
TEST(ModelSize, UNetHasThatOfMlperfsAndOfTheWells) {
  EXPECT_EQ(weights_of_config("unet3d"), 31'190'243);
  EXPECT_EQ(weights_of(unet_chain(UNetOptions{.image_size = 128,
                                              .channels = 44,
                                              .classes = 11,
                                              .filters = 48,
                                              .levels = 4,
                                              .nonlinearity = UNetActivation::tanh})),
            17'479'595);
}

// The reference's module, built in PyTorch, has as many.
TEST(ModelSize, DeepCamHasThatOfTheReference) {
  EXPECT_EQ(weights_of(deepcam_chain(DeepCamOptions{.channels = 16, .classes = 3})), 56'454'720);
  EXPECT_EQ(weights_of_config("deepcam"), 56'454'720);
}

std::int64_t vit_weights(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return weights_of(vit_chain({.layers = layers, .hidden = hidden, .heads = heads}));
}

TEST(VitSizes, AreThoseOfThePublishedModels) {
  EXPECT_EQ(vit_weights(12, 192, 3), 5'717'416);
  EXPECT_EQ(vit_weights(12, 384, 6), 22'050'664);
  EXPECT_EQ(weights_of_config("vit_b16_imagenet"), 86'567'656);
  EXPECT_EQ(vit_weights(24, 1024, 16), 304'326'632);
}

TEST(GptDeclaration, DecaysMatricesOnlyAndTiesTheHead) {
  ParamStore params;
  Blueprint blueprint(params, DeviceType::cpu, {.micro_batch = 2});
  for (const ChainLayer& layer :
       gpt_chain({.layers = 1, .hidden = 8, .heads = 2, .context = 4, .vocabulary = 10}))
    static_cast<void>(layer.make(blueprint));

  int tables = 0;
  for (const ParamSpec& spec : params.layout().specs()) {
    const bool vector = spec.shape.rank() == 1,
               positions = spec.name == "embedding.position.weight";
    EXPECT_EQ(spec.decay, !vector && !positions) << spec.name;
    tables += spec.tie == "embedding.token.weight" ? 1 : 0;
  }
  EXPECT_EQ(tables, 1);
}

}  // namespace
}  // namespace trireme
