// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/expert_load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/telemetry/metrics.h"

namespace trireme {
namespace {

TEST(ExpertLoad, OfAnEvenRouterIsOne) {
  const ExpertLoad load = load_of("blocks.0.mlp", std::vector{5.0F, 5.0F, 5.0F, 5.0F});

  EXPECT_DOUBLE_EQ(load.max_over_mean, 1);
  EXPECT_EQ(load.dead, 0);
  EXPECT_DOUBLE_EQ(load.entropy, 1);
  EXPECT_DOUBLE_EQ(load.tokens, 20);
}

TEST(ExpertLoad, FollowsFromTheCounts) {
  const ExpertLoad load = load_of("blocks.0.mlp", std::vector{6.0F, 2.0F, 0.0F, 0.0F});

  EXPECT_DOUBLE_EQ(load.max_over_mean, 3);
  EXPECT_EQ(load.dead, 2);
  const double entropy = -(0.75 * std::log(0.75) + 0.25 * std::log(0.25)) / std::log(4.0);
  EXPECT_DOUBLE_EQ(load.entropy, entropy);
}

TEST(ExpertLoad, OfOneExpertForAllTokensHasNoEntropy) {
  const ExpertLoad load = load_of("blocks.0.mlp", std::vector{0.0F, 7.0F});

  EXPECT_DOUBLE_EQ(load.max_over_mean, 2);
  EXPECT_DOUBLE_EQ(load.entropy, 0);
}

TEST(ExpertLoad, BeforeTheFirstStepIsEven) {
  EXPECT_DOUBLE_EQ(load_of("blocks.0.mlp", std::vector{0.0F, 0.0F}).max_over_mean, 1);
}

TEST(ExpertLoad, IsWrittenByLayerAndInNumbersOfTheWorst) {
  const StepMetrics metrics{.step = 2,
                            .expert_loads = {load_of("blocks.0.mlp", std::vector{3.0F, 1.0F}),
                                             load_of("blocks.1.mlp", std::vector{0.0F, 4.0F})},
                            .expert_traffic = ExpertTraffic{
                                .passes = 8, .in_rounds = 2, .off_rank = 0.5, .rank_load = 1.25}};

  const auto line = nlohmann::json::parse(format_json(metrics, ItemKind::tokens));

  EXPECT_EQ(line["expert_max_over_mean"], 2);
  EXPECT_EQ(line["dead_experts"], 1);
  EXPECT_EQ(line["experts"]["blocks.0.mlp"]["max_over_mean"], 1.5);
  EXPECT_EQ(line["experts"]["blocks.1.mlp"]["dead"], 1);
  EXPECT_EQ(line["experts"]["blocks.1.mlp"]["tokens"], 4);
  EXPECT_EQ(line["expert_passes"], 8);
  EXPECT_EQ(line["expert_passes_in_rounds"], 2);
  EXPECT_EQ(line["expert_rows_off_rank"], 0.5);
  EXPECT_EQ(line["expert_rank_load"], 1.25);
}

TEST(ExpertLoad, OfADenseModelIsNotWritten) {
  const auto line = nlohmann::json::parse(format_json(StepMetrics{.step = 2}, ItemKind::tokens));

  EXPECT_FALSE(line.contains("experts"));
  EXPECT_FALSE(line.contains("expert_max_over_mean"));
  EXPECT_FALSE(line.contains("expert_passes"));
}

}  // namespace
}  // namespace trireme
