// SPDX-License-Identifier: Apache-2.0
// Frozen weights, groups and layer-wise decay in whole runs. After one step of SGD without
// clipping, a weight that is not frozen has the bits of a run without frozen ones.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "runtime/checkpoint/files/weight_files.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;
using Weights = std::map<std::string, std::vector<float>>;

class FreezeTest : public RunTest {
 protected:
  [[nodiscard]] Weights weights(const std::string& name) const {
    const WeightFiles files(directory() + "/" + name + "/weights.safetensors");
    Weights all;
    for (const std::string& tensor : files.names())
      all[tensor] = files.read(tensor);
    return all;
  }
  // Trains for one step of SGD.
  [[nodiscard]] Weights step(const std::string& config, int ranks, const Settings& more) {
    Settings set{"optimizer.name=sgd",
                 "optimizer.momentum=0",
                 "optimizer.nesterov=false",
                 "optimizer.weight_decay=0",
                 "lr_schedule.name=constant",
                 "lr_schedule.warmup_steps=0",
                 "train.steps=1",
                 "train.clip_norm=0",
                 "optimizer.learning_rate=0.1"};
    set.insert(set.end(), more.begin(), more.end());
    const std::string name = fmt::format("run{}", runs_++);
    const CommandResult result = train(config, name, ranks, set);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.exit_code == 0 ? weights(name) : Weights{};
  }
  void expect_frozen(const std::string& config, const Settings& more,
                     const std::vector<std::pair<int, Settings>>& layouts) {
    const Weights trained = step(config, 1, more);
    Settings still = more;
    still.emplace_back("optimizer.learning_rate=0");
    const Weights before = step(config, 1, still);
    for (const int odd : {0, 1}) {
      std::set<std::string> frozen;
      std::string patterns;
      int at = 0;
      for (const auto& [name, values] : trained) {
        if (values == before.at(name) || name.find("running") != std::string::npos) continue;
        if (at++ % 2 != odd) continue;
        frozen.insert(name);
        patterns += (patterns.empty() ? "" : ",") + name;
      }
      ASSERT_GT(frozen.size(), 3U);
      for (const auto& [ranks, layout] : layouts) {
        Settings set = more;
        set.insert(set.end(), layout.begin(), layout.end());
        set.push_back("train.freeze=[" + patterns + "]");
        for (const auto& [name, values] : step(config, ranks, set))
          EXPECT_EQ(values, frozen.contains(name) ? before.at(name) : trained.at(name)) << name;
      }
    }
  }

  int runs_ = 0;
};

TEST_F(FreezeTest, HalfOfAGptLeavesTheOtherGradientsAsTheyAre) {
  expect_frozen("gpt.yaml", {"reproducibility=layout", "parallel.tensor_blocks=2"},
                {{1, {}},
                 {2, {"parallel.tensor=2"}},
                 {2, {"parallel.pipeline=2", "parallel.schedule=zero-bubble"}},
                 {2, {"parallel.zero=3"}}});
}

TEST_F(FreezeTest, HalfOfAVisionTransformerLeavesTheOtherGradientsAsTheyAre) {
  expect_frozen("vit.yaml", {"reproducibility=layout"},
                {{1, {}}, {2, {"parallel.pipeline=2"}}, {2, {"parallel.zero=2"}}});
}

// The running statistics of frozen norms follow the data, as PyTorch's do.
TEST_F(FreezeTest, HalfOfAResNetLeavesGradientsAndStatisticsAsTheyAre) {
  expect_frozen("resnet.yaml", {"reproducibility=layout"},
                {{1, {}}, {2, {"parallel.pipeline=2"}}, {2, {"parallel.zero=3"}}});
}

TEST_F(FreezeTest, StatisticsBelowTheLowestTrainedLayerFollowTheData) {
  const Settings set{"reproducibility=layout"};
  const Weights all = step("resnet.yaml", 1, set);
  for (const int ranks : {1, 2}) {
    const Weights head = step("resnet.yaml", ranks, {set[0], "train.freeze=[stem.*,stages.*]"});
    for (const auto& [name, values] : head) {
      const bool alike =
          name.find("running") != std::string::npos || name.starts_with("classifier");
      EXPECT_TRUE(!alike || values == all.at(name)) << name;
      EXPECT_TRUE(name != "stem.convolution.weight" || values != all.at(name));
    }
  }
}

TEST_F(FreezeTest, ResumesUnderAnotherLayoutAndRefusesOtherPatterns) {
  const Settings common{"train.freeze=[embedding.*,blocks.0.*]",
                        R"("optimizer.groups=[\"*.bias: rate=2 decay=1\"]")",
                        "optimizer.layer_decay=0.5",
                        "reproducibility=layout",
                        "checkpoint.every_steps=3",
                        "train.ema_decay=0.5"};
  Settings half = common, other = common;
  half.insert(half.end(), {"train.steps=3", "lr_schedule.name=constant", "parallel.zero=2"});
  Settings whole = common;
  whole.emplace_back("lr_schedule.name=constant");
  const CommandResult all = train_gpt("whole", 1, whole);
  ASSERT_EQ(all.exit_code, 0) << all.output;
  EXPECT_THAT(all.output, HasSubstr("of them trained"));
  ASSERT_EQ(train_gpt("run", 2, half).exit_code, 0);
  whole.emplace_back("parallel.pipeline=2");
  const CommandResult on = train_gpt("run", 2, whole);
  ASSERT_EQ(on.exit_code, 0) << on.output;
  EXPECT_EQ(weights("run"), weights("whole"));
  whole.emplace_back("train.freeze=[blocks.0.*]");
  const CommandResult changed = train_gpt("run", 2, whole);
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_THAT(changed.output, HasSubstr("train.freeze"));
}

// With powers of two, so that no rounding differs.
TEST_F(FreezeTest, LayerDecayAndGroupsScaleTheStepOfEachLayer) {
  const Settings none{"optimizer.learning_rate=0"};
  const Weights before = step("gpt.yaml", 1, none), full = step("gpt.yaml", 1, {});
  const Weights decayed = step("gpt.yaml", 2,
                               {"optimizer.layer_decay=0.5", "parallel.pipeline=2",
                                R"("optimizer.groups=[\"blocks.1.norm2.*: rate=0.25\"]")"});
  const auto expect = [&](const std::string& name, float share) {
    for (std::size_t i = 0; i < full.at(name).size(); ++i)
      EXPECT_NEAR(decayed.at(name)[i] - before.at(name)[i],
                  share * (full.at(name)[i] - before.at(name)[i]), 1e-6)
          << name;
  };
  expect("embedding.token.weight", 0.125F);
  expect("blocks.0.attention.qkv.weight", 0.25F);
  expect("blocks.1.mlp.expand.weight", 0.5F);
  expect("blocks.1.norm2.weight", 0.125F);
  expect("final_norm.weight", 1);
}

}  // namespace
}  // namespace trireme::test
