// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme::plan::test {
namespace {

StepEstimate step_of(double seconds) {
  StepEstimate step;
  step.forward = seconds / 3;
  step.backward = seconds * 2 / 3;
  step.total = seconds;
  return step;
}

Hardware cluster(double mtbf_hours, double restart) {
  Hardware hardware;
  hardware.reliability = {.mtbf_hours = mtbf_hours, .restart_seconds = restart};
  return hardware;
}

TEST(Cluster, WithoutFailuresLosesNothing) {
  const RunEstimate run = simulate_run(step_of(2), cluster(0, 600),
                                       {.ranks = 16384, .steps = 500, .checkpoint_every = 100});

  EXPECT_DOUBLE_EQ(run.goodput, 1);
  EXPECT_DOUBLE_EQ(run.wall, 1000);
  EXPECT_EQ(run.failures, 0);
  EXPECT_TRUE(run.ended);
}

TEST(Cluster, PartsAddUpToTheWallTime) {
  Hardware hardware = cluster(20000, 300);
  hardware.straggler_deviation = 0.02;
  const RunEstimate run = simulate_run(
      step_of(5), hardware,
      {.ranks = 16384, .steps = 20000, .checkpoint_every = 100, .checkpoint_seconds = 20});

  EXPECT_TRUE(run.ended);
  EXPECT_GT(run.failures, 10);
  EXPECT_NEAR(run.useful + run.checkpoints + run.lost + run.restarts, run.wall, 1e-6 * run.wall);
  EXPECT_DOUBLE_EQ(run.goodput, run.useful / run.wall);
}

TEST(Cluster, IsAFunctionOfTheSeed) {
  const auto run = [](std::uint64_t seed) {
    return simulate_run(step_of(5), cluster(20000, 300),
                        {.ranks = 8192,
                         .steps = 20000,
                         .checkpoint_every = 100,
                         .checkpoint_seconds = 20,
                         .seed = seed})
        .wall;
  };

  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Cluster, StragglersGrowWithTheLogarithmOfTheRanks) {
  Hardware hardware = cluster(0, 0);
  hardware.straggler_deviation = 0.02;
  const auto slowdown = [&](int ranks) {
    return simulate_run(step_of(1), hardware, {.ranks = ranks, .steps = 4000}).mean_step - 1;
  };

  EXPECT_EQ(slowdown(1), 0);
  EXPECT_NEAR(slowdown(64), 0.02 * expected_largest(64), 0.002);
  EXPECT_NEAR(slowdown(16384), 0.02 * expected_largest(16384), 0.002);
}

TEST(Cluster, SimulationAgreesWithDalysFormula) {
  constexpr double cost = 30, restart = 120;
  const Hardware hardware = cluster(10000, restart);
  constexpr int ranks = 4096;
  const double mtbf = job_mtbf_seconds(hardware, ranks);
  for (const int every : {20, 100, 500}) {
    double useful = 0, wall = 0;
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
      const RunEstimate run = simulate_run(step_of(10), hardware,
                                           {.ranks = ranks,
                                            .steps = 40000,
                                            .checkpoint_every = every,
                                            .checkpoint_seconds = cost,
                                            .seed = seed});
      ASSERT_TRUE(run.ended);
      useful += run.useful;
      wall += run.wall;
    }
    const double expected = expected_goodput(every * 10, cost, mtbf, restart);
    EXPECT_NEAR(useful / wall, expected, 0.02 * expected) << every;
  }
}

TEST(CheckpointIntervals, OfDalyIsNearTheBest) {
  for (const double cost : {1.0, 30.0, 300.0}) {
    for (const double mtbf : {3600.0, 86400.0}) {
      const CheckpointIntervals found = checkpoint_intervals(cost, mtbf, 600);
      const double best = expected_goodput(found.best, cost, mtbf, 600);

      EXPECT_DOUBLE_EQ(found.young, std::sqrt(2 * cost * mtbf));
      EXPECT_NEAR(found.daly, found.best, 0.05 * found.best);
      EXPECT_NEAR(expected_goodput(found.daly, cost, mtbf, 600), best, 1e-3);
      EXPECT_LT(expected_goodput(found.best / 3, cost, mtbf, 600), best);
      EXPECT_LT(expected_goodput(found.best * 3, cost, mtbf, 600), best);
    }
  }
}

TEST(CheckpointIntervals, WithoutFailuresNeverComes) {
  EXPECT_EQ(checkpoint_intervals(30, job_mtbf_seconds(cluster(0, 0), 8), 0).best,
            std::numeric_limits<double>::infinity());
}

TEST(Cluster, GivesUpIfFailuresAreFasterThanCheckpoints) {
  const RunEstimate run = simulate_run(step_of(100), cluster(1, 60),
                                       {.ranks = 1024, .steps = 50, .checkpoint_every = 10});

  EXPECT_FALSE(run.ended);
  EXPECT_LT(run.goodput, 0.01);
}

TEST(Normal, QuantilesAreThoseOfTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-9);
  EXPECT_NEAR(normal_quantile(0.975), 1.959964, 1e-6);
  EXPECT_NEAR(expected_largest(2), 0.5642, 0.03);  // 1 / sqrt(pi)
  EXPECT_NEAR(expected_largest(100), 2.5076, 0.02);
}

TEST(Checkpoint, IsWrittenByAllRanksTogether) {
  Hardware hardware = cluster(0, 0);
  EXPECT_EQ(checkpoint_seconds(1e9, 8, hardware), 0);
  hardware.reliability.checkpoint_bandwidth = 1e9;
  EXPECT_DOUBLE_EQ(checkpoint_seconds(8e9, 8, hardware), 12);
}

}  // namespace
}  // namespace trireme::plan::test
