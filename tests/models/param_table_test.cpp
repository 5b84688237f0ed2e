// SPDX-License-Identifier: Apache-2.0
// Every parameter of every family: its weight decay and its logical tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/registry.h"
#include "models/transformer/exchange.h"

namespace trireme {
namespace {

const std::vector<std::string> configs{
    "bert_tiny",   "cosmoflow",   "deepcam",         "gemma3_tiny",       "gpt_tiny",
    "gpt_oss_20b", "llama_tiny",  "moe_tiny",        "mixtral_8x7b",      "qwen3_30b_a3b",
    "mlp_table",   "resnet18",    "resnet_fashion",  "resnet50_imagenet", "the_well_2d",
    "unet3d",      "vit_fashion", "vit_b16_imagenet"};

class ParamTable : public ::testing::TestWithParam<std::string> {
 protected:
  // By name; without statistics and copies.
  [[nodiscard]] std::map<std::string, ParamSpec> weights() const {
    std::map<std::string, ParamSpec> all;
    for (const LayerSummary& layer : summarize(make_chain(config_), DeviceType::cpu, {}))
      for (const ParamSpec& spec : layer.params)
        if (spec.kind == ParamKind::weight && !spec.is_copy()) all[spec.name] = spec;
    return all;
  }
  Config config_ = load_config("configs/" + GetParam() + ".yaml", {});
};

// Of what has several axes, positions, experts' biases and the affine part of DeepCAM's average
// do not decay.
TEST_P(ParamTable, DecaysMatricesFiltersAndTokensOnly) {
  const auto weights = this->weights();
  EXPECT_FALSE(weights.empty());
  for (const auto& [name, spec] : weights) {
    const bool exempt = name.ends_with("position.weight") || name.ends_with("bias") ||
                        name.ends_with("average.affine.weight");
    EXPECT_EQ(spec.decay, spec.shape.rank() > 1 && !exempt)
        << name << " " << spec.shape.to_string();
  }
}

TEST_P(ParamTable, HasTheTensorsOfThePublishedModel) {
  const auto* const exchange = family_of(config_.model).exchange;
  if (exchange->names == nullptr) GTEST_SKIP() << "no published form";
  const auto weights = this->weights();
  std::vector<hugging_face::NamePair> pairs;
  try {
    pairs = exchange->names(config_.model);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();  // this config's model
  }
  for (const hugging_face::NamePair& pair : pairs) {
    if (pair.hf.empty() || !weights.contains(pair.ours)) continue;
    const std::vector<ParamMatrix> matrices = matrices_of(weights.at(pair.ours));
    EXPECT_EQ(matrices.back().tensor + 1, std::ssize(pair.hf)) << pair.ours;
    const ParamMatrix& last = matrices.back();
    EXPECT_EQ(last.first + last.count(), weights.at(pair.ours).shape.count()) << pair.ours;
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, ParamTable, ::testing::ValuesIn(configs),
                         [](const auto& info) { return info.param; });

TEST(ParamTables, CoverEveryFamily) {
  for (const Family& family : families())
    EXPECT_TRUE(std::ranges::any_of(configs, [&](const std::string& name) {
      return &family_of(load_config("configs/" + name + ".yaml", {}).model) == &family;
    })) << family.keys.name;
}

}  // namespace
}  // namespace trireme
