// SPDX-License-Identifier: Apache-2.0
// Rules of parallel.expert, for a model of 8 experts and one without.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "models/registry.h"
#include "runtime/config/key_table.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

struct Sparse {
  std::int64_t experts = 8;
  friend bool operator==(const Sparse&, const Sparse&) = default;
};

config::ModelFamily sparse() {
  return {.name = "sparse",
          .splits_tensor = true,
          .fields =
              [] {
                return std::vector{TRIREME_MODEL_FIELD(
                    Sparse, experts, (config::IntegerRange{0, 64}), "experts of each layer")};
              },
          .check = [](const config::Subject&) {},
          .limits =
              [](const Config& config) {
                ModelLimits limits;
                limits.layers = 4;
                limits.tensor = {{48, "model.heads"}};
                limits.experts = {config.model.as<Sparse>().experts, "model.experts"};
                return limits;
              },
          .targets =
              [](const ModelConfig&) {
                return TargetSpec{TargetKind::label, Shape{}, 2};
              }};
}

class ExpertRules : public testing::Test {
 protected:
  [[nodiscard]] Config resolve(const std::vector<std::string>& overrides, int ranks,
                               Purpose purpose = Purpose::train) {
    Provenance where;
    const Config config =
        parse_config(keys_, "data: {path: x}\nmodel: {family: sparse}\ntrain: {global_batch: 64}\n",
                     "a.yaml", overrides, &where);
    const Environment place{.ranks = ranks, .cuda_in_build = true, .gpus = ranks};
    return resolve_config(keys_, config, place, &where, purpose);
  }
  [[nodiscard]] std::string refused(const std::vector<std::string>& overrides, int ranks,
                                    Purpose purpose = Purpose::train) {
    return config_error([&] { (void)resolve(overrides, ranks, purpose); });
  }
  void accept(const std::vector<std::string>& overrides, int ranks) {
    EXPECT_NO_THROW((void)resolve(overrides, ranks)) << testing::PrintToString(overrides);
  }

 private:
  config::KeyTable keys_{{sparse()}};
};

TEST_F(ExpertRules, AcceptWholeRunsOfDataRanksWithTheirTensorRanks) {
  accept({}, 2);
  accept({"parallel.expert=2"}, 4);
  accept({"parallel.expert=8"}, 8);
  accept({"parallel.expert=4", "parallel.tensor=2", "parallel.tensor_blocks=4"}, 8);
  accept({"parallel.expert=4", "parallel.pipeline=2"}, 8);
  accept({"parallel.expert=2", "parallel.zero=3"}, 4);
  accept({"parallel.expert=4", "parallel.zero=1", "parallel.zero_group=2"}, 4);
  accept({"parallel.expert=4", "parallel.zero=2", "parallel.zero_group=2"}, 4);
  accept({"parallel.expert=4", "parallel.zero=2", "reproducibility=layout"}, 4);
  accept({"model.experts=0", "parallel.expert=1", "parallel.tensor=2"}, 2);
  EXPECT_EQ(resolve({"parallel.expert=4", "parallel.tensor=2"}, 8).parallel.expert_data_ranks(), 2);
  EXPECT_EQ(resolve({"parallel.tensor=2"}, 8).parallel.expert_data_ranks(), 1);
}

TEST_F(ExpertRules, RefuseRanksThatDoNotFitTheModel) {
  EXPECT_EQ(refused({"parallel.expert=3"}, 3),
            "--set parallel.expert=3: 3 does not divide model.experts = 8; use auto or 1");
  EXPECT_EQ(refused({"parallel.tensor=3", "train.global_batch=63", "train.micro_batch=3"}, 3),
            "a.yaml: parallel.expert: auto = parallel.tensor = 3 does not divide model.experts = "
            "8; use auto, or another parallel.tensor");
  EXPECT_EQ(refused({"parallel.expert=2", "model.experts=0"}, 2),
            "--set parallel.expert=2: 2 with model.family: sparse, which has no experts; use auto");
}

TEST_F(ExpertRules, RefuseRanksThatDoNotFitTheOtherAxes) {
  EXPECT_EQ(refused({"parallel.expert=3", "parallel.tensor=2"}, 4),
            "--set parallel.expert=3: 3 is not a multiple of parallel.tensor = 2; use auto or 2 or "
            "4");
  EXPECT_EQ(refused({"parallel.expert=8"}, 4),
            "--set parallel.expert=8: 8 with parallel.tensor: 1 needs runs of 8 data ranks, which "
            "do not divide parallel.data = 4; use auto or 1, 2 or 4");
  EXPECT_THAT(refused({"parallel.expert=2", "parallel.zero=1", "parallel.zero_group=3",
                       "train.global_batch=48"},
                      6),
              HasSubstr("shared by 2 data ranks, ZeRO's slices by 3"));
}

TEST_F(ExpertRules, RefuseModesThatKnowNothingOfOtherDataRanksExperts) {
  EXPECT_EQ(refused({"parallel.expert=2", "optimizer.name=muon"}, 2),
            "--set parallel.expert=2: 2 with optimizer.name: muon, which gathers matrices over all "
            "data ranks; use auto");
  EXPECT_THAT(refused({"parallel.expert=2", "train.global_batch=36"}, 2),
              AllOf(HasSubstr("hold 5, 4 micro-batches"), EndsWith("train.global_batch 32 or 40")));
  EXPECT_THAT(refused({"parallel.expert=2", "data.validation_path=y"}, 2, Purpose::evaluate),
              HasSubstr("data ranks work on their own only in training"));
}

TEST_F(ExpertRules, RefuseGroupsThatAreNoSubtreesInLayoutMode) {
  EXPECT_THAT(refused({"parallel.expert=6", "model.experts=12", "reproducibility=layout",
                       "train.global_batch=48"},
                      12),
              HasSubstr("6 data ranks that share experts are not a subtree"));
  EXPECT_EQ(refused({"parallel.expert=4", "parallel.zero=2", "parallel.zero_group=2",
                     "reproducibility=layout"},
                    4),
            "--set parallel.zero_group=2: 2 with parallel.zero: 2 and reproducibility: layout, "
            "below the 4 data ranks that share experts (parallel.expert); use 4 or more, or all, "
            "or zero 0 or 1");
}

TEST_F(ExpertRules, RanksThatShareExpertsHaveEquallyManyMicroBatches) {
  const auto batch = [](int global) { return fmt::format("train.global_batch={}", global); };
  const std::string layout = "reproducibility=layout", one = "train.micro_batch=1";
  for (const int global : {4, 8, 12, 16, 24})
    accept({"parallel.expert=2", layout, one, batch(global)}, 4);
  for (const int global : {4, 8, 16})
    accept({"parallel.expert=4", layout, one, batch(global)}, 4);
  EXPECT_THAT(refused({"parallel.expert=4", layout, one, batch(12)}, 4),
              EndsWith("train.global_batch 8 or 16"));
  EXPECT_THAT(refused({"parallel.expert=4", layout, one, batch(24)}, 4),
              EndsWith("train.global_batch 16 or 32"));
  accept({"parallel.expert=4", one, batch(12)}, 4);
  accept({"parallel.expert=2", one, batch(10)}, 4);
}

TEST_F(ExpertRules, GraphsDoNotRecordExpertsOverRanks) {
  accept({"device.graphs=layer", "parallel.expert=1"}, 1);
  EXPECT_THAT(refused({"parallel.expert=2", "device.graphs=layer"}, 4),
              HasSubstr("device.graphs=layer: layer with experts over 2 ranks"));
}

TEST_F(ExpertRules, ABufferNeedsRowsThatTravel) {
  accept({"parallel.expert_capacity_factor=1", "parallel.expert=2"}, 4);
  accept({"parallel.expert_capacity_factor=4", "parallel.tensor=2"}, 2);
  accept({"parallel.expert_capacity_factor=2"}, 1);

  EXPECT_THAT(refused({"parallel.expert_capacity_factor=4"}, 4),
              AllOf(HasSubstr("parallel.expert_capacity_factor"), HasSubstr("4 has no effect"),
                    HasSubstr("parallel.expert resolves to one rank"),
                    HasSubstr("set parallel.expert above 1")));
  EXPECT_THAT(refused({"parallel.expert_capacity_factor=4", "model.experts=0"}, 4),
              HasSubstr("the model has no experts"));
  EXPECT_THAT(refused({"parallel.expert_capacity_factor=0.5", "parallel.expert=2"}, 4),
              HasSubstr("parallel.expert_capacity_factor"));
}

TEST_F(ExpertRules, AnAssumedImbalanceNeedsExperts) {
  accept({"parallel.expert_imbalance=1.3"}, 4);

  EXPECT_THAT(refused({"parallel.expert_imbalance=1.3", "model.experts=0"}, 4),
              HasSubstr("the model has no experts; use 1"));
}

TEST(LlamaExperts, BalancedRoutingIsForTrainingWithoutOtherBalance) {
  const auto refused = [](const std::vector<std::string>& overrides) {
    return refusal("model: {family: llama, experts: 8, router_balanced: true}\ndata: {path: x}\n",
                   overrides);
  };

  EXPECT_EQ(
      refused({"model.balance_rate=0.001"}),
      "a.yaml:1: model.router_balanced: true leaves model.balance_rate without effect; use 0");
  EXPECT_EQ(
      refused({"model.router_groups=2"}),
      "a.yaml:1: model.router_balanced: true leaves model.router_groups without effect; use 1 "
      "group");
  EXPECT_EQ(refused({"model.experts=none"}),
            "a.yaml:1: model.router_balanced: has no effect without model.experts");
}

TEST(LlamaExperts, RefuseRoutersThatCannotChoose) {
  const auto refused = [](const std::vector<std::string>& overrides, const char* experts = "8") {
    return refusal(
        fmt::format("model: {{family: llama, layers: 4, experts: {}}}\ndata: {{path: x}}\n",
                    experts),
        overrides);
  };

  EXPECT_EQ(refused({"model.experts_per_token=9"}),
            "--set model.experts_per_token=9: 9 of model.experts = 8; use 8 or less");
  EXPECT_EQ(refused({"model.router_groups=3"}),
            "--set model.router_groups=3: 3 groups of model.experts = 8; use a divisor with two or "
            "more experts in each group");
  EXPECT_EQ(refused({"model.router_groups=4", "model.experts_per_token=4"}),
            "a.yaml: model.router_groups_kept: 1 of 4 groups with 2 experts each, for "
            "model.experts_per_token = 4; use 2 to 4");
  EXPECT_EQ(refused({"model.dense_layers=[0,1,2,3]"}),
            "--set model.dense_layers=[0,1,2,3]: leaves none of 4 layers with experts; use "
            "model.experts: none for a dense model");
  EXPECT_EQ(refused({"model.dense_layers=[4]"}),
            "--set model.dense_layers=[4]: names layer 4, but the last of 4 layers is 3");
  EXPECT_EQ(refused({"model.balance_loss=0.1"}, "none"),
            "--set model.balance_loss=0.1: has no effect without model.experts");
  EXPECT_THAT(refused({"model.mup_base_width=64"}), HasSubstr("do not carry over"));
  EXPECT_THAT(refused({"optimizer.name=muon"}), HasSubstr("use adamw"));
  EXPECT_THAT(refused({"lora.rank=4", "lora.targets=[expand]", "train.initial_weights=y"}),
              AllOf(HasSubstr("lora.targets"), HasSubstr("experts"), HasSubstr("qkv")));
}

}  // namespace
}  // namespace trireme
