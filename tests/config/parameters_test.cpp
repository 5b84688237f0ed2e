// SPDX-License-Identifier: Apache-2.0
// Patterns over a model's parameters, and the rules for them.
#include <gmock/gmock.h>

#include "runtime/config/param_rules.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ParamRules, StarsMatchAcrossDots) {
  EXPECT_TRUE(name_matches("blocks.*.bias", "blocks.11.mlp.expand.bias"));
  EXPECT_TRUE(name_matches("blocks.[0-3].*", "blocks.2.norm1.weight"));
  EXPECT_FALSE(name_matches("blocks.[0-3].*", "blocks.4.norm1.weight"));
  EXPECT_FALSE(name_matches("head", "head.weight"));
}

TEST(ParamRules, NearNamesAreWholeNamesOrTheirBeginnings) {
  const std::vector<std::string> names{"embedding.token.weight", "blocks.0.norm1.weight"};
  EXPECT_EQ(near_names("embeding.*", names), "did you mean embedding.*?");
  EXPECT_EQ(near_names("blocks.0.norm2.weight", names), "did you mean blocks.0.norm1.weight?");
  EXPECT_EQ(near_names("q", names), "there are blocks.*, embedding.*");
}

TEST(ParamRules, GroupsAreReadAndTheLastCounts) {
  std::string problem;
  const std::vector<std::string> texts{"*: rate=0.5", "head.*: rate=10 decay=0", "*.bias: decay=1"};
  const ParamRules rules{.groups = param_groups(texts, problem)};

  EXPECT_EQ(problem, "");
  ASSERT_NE(rules.group_of("head.weight"), nullptr);
  EXPECT_EQ(rules.group_of("head.weight")->rate, 10.0F);
  EXPECT_EQ(rules.group_of("head.weight")->decay, 0.0F);
  EXPECT_EQ(rules.group_of("head.bias")->rate, 1.0F);
  EXPECT_EQ(rules.group_of("blocks.0.norm1.weight")->decay, std::nullopt);
}

TEST(ParamRules, MalformedGroupsAreRefused) {
  for (const char* const text : {"head.*", "head.*:rate=1", "head.*: ", ": rate=1", "a: rate=0",
                                 "a: rate=-1", "a: decay=x", "a: lr=1", "a: rate"}) {
    std::string problem;
    EXPECT_TRUE(param_groups(std::vector<std::string>{text}, problem).empty());
    EXPECT_THAT(problem, AllOf(HasSubstr(fmt::format("\"{}\"", text)), HasSubstr("rate=X")));
  }
}

TEST(ResolveFreeze, PatternsMustMatchAndLeaveSomething) {
  EXPECT_EQ(resolved(gpt, {"train.freeze=[embedding.*]"}).train.freeze.size(), 1U);
  EXPECT_THAT(refusal(gpt, {"train.freeze=[embeding.*]"}),
              AllOf(StartsWith("--set train.freeze=[embeding.*]: \"embeding.*\" matches no weight"),
                    HasSubstr("did you mean embedding.*?")));
  EXPECT_THAT(refusal(gpt, {"train.freeze=[\"*\"]"}), HasSubstr("freezes every weight"));
  EXPECT_THAT(refusal(resnet, {"train.freeze=[\"*running_mean\"]"}),
              HasSubstr("matches no weight"));
}

TEST(ResolveGroups, ReachWhatTrainsBesideAdapters) {
  const std::vector<std::string> adapted{"lora.rank=2", "train.initial_weights=x",
                                         "optimizer.groups=[\"final_norm.*: rate=2\"]"};
  EXPECT_THAT(refusal(gpt, adapted), HasSubstr("matches no trained weight"));
  auto fresh = adapted;
  fresh.emplace_back("train.initial_reinitialise=[final_norm.*]");
  EXPECT_EQ(resolved(gpt, fresh).optimizer.groups.size(), 1U);
}

TEST(ResolveGroups, NeedAnOptimizerWithSharesAndTrainedWeights) {
  EXPECT_THAT(refusal(gpt, {"optimizer.groups=[\"final_norm.*: rate=2\"]", "optimizer.name=lars"}),
              HasSubstr("with optimizer.name: lars"));
  EXPECT_THAT(refusal(gpt, {"optimizer.groups=[\"x: rate=2\"]"}),
              HasSubstr("\"x\" matches no trained weight"));
  EXPECT_THAT(
      refusal(gpt, {"train.freeze=[embedding.*]", "optimizer.groups=[\"embedding.*: rate=2\"]"}),
      HasSubstr("matches no trained weight"));
  EXPECT_THAT(refusal(gpt, {"optimizer.groups=[\"blocks.*\"]"}), HasSubstr("is not PATTERN:"));
  EXPECT_NO_THROW(
      resolved(gpt, {"lora.rank=2", "train.initial_weights=x", "lora.targets=[query, output]",
                     "optimizer.groups=[\"*.query.lora_b: rate=16\"]"}));
  EXPECT_THAT(refusal(gpt, {"optimizer.layer_decay=0.5", "optimizer.name=lars"}),
              StartsWith("--set optimizer.layer_decay=0.5: with optimizer.name: lars"));
}

TEST(ResolveInitialWeights, PatternsNeedWeightsAndParameters) {
  EXPECT_THAT(refusal(gpt, {"train.initial_reinitialise=[head.*]"}),
              HasSubstr("has no effect without train.initial_weights"));
  EXPECT_THAT(refusal(gpt, {"train.initial_skip=[a]"}), HasSubstr("has no effect without"));
  EXPECT_THAT(refusal(gpt, {"train.initial_weights=x", "train.initial_reinitialise=[hed.*]"}),
              HasSubstr("\"hed.*\" matches no weight of the model"));
}

TEST(ResolveAdapters, PartsHaveFactorsOfTheirOwnOrTheWholeHas) {
  const std::string lora = gpt + "train: {initial_weights: base}\nlora: {rank: 4}\n";
  EXPECT_NO_THROW(resolved(lora, {"lora.targets=[query,value]", "lora.dropout=0.1"}));
  EXPECT_THAT(refusal(lora, {"lora.targets=[qkv,key]"}), HasSubstr("'key' is a part of 'qkv'"));
  EXPECT_THAT(refusal(lora, {"lora.targets=[gate]"}), HasSubstr("is not a linear layer"));
  EXPECT_THAT(refusal(lora, {"lora.dropout=0.1", "train.row_tile=2"}),
              HasSubstr("do not know their positions"));
  EXPECT_THAT(refusal(gpt, {"lora.rslora=true"}),
              HasSubstr("lora.rslora=true: has no effect with lora.rank: 0"));
  LoraConfig config{.rank = 16, .alpha = 8, .modules_to_save = {}};
  EXPECT_EQ(config.scale(), 0.5);
  config.rslora = true;
  EXPECT_EQ(config.scale(), 2);
}

}  // namespace
}  // namespace trireme
