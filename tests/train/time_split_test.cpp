// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/time_split.h"

#include <gmock/gmock.h>

#include <random>

namespace trireme {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

constexpr double rounding = 1e-9;

double sum(const StepSplit& split) {
  return split.compute + split.data_wait + split.bubble + split.straggler + split.exposed_comm +
         split.between_steps;
}

TEST(TimeSplit, OneRankOnlyComputesAndWaitsForData) {
  // Its comm stream has sums of its own to make.
  const RankStep rank{.period = 12, .step = 10, .before_reduce = 9, .comm_wait = 1, .data_wait = 2};

  const StepSplit split = split_step(1, {}, {&rank, 1});

  EXPECT_DOUBLE_EQ(split.compute, 8);
  EXPECT_DOUBLE_EQ(split.data_wait, 2);
  EXPECT_DOUBLE_EQ(split.between_steps, 2);
  EXPECT_DOUBLE_EQ(split.straggler + split.exposed_comm + split.bubble, 0);
}

TEST(TimeSplit, WaitingForASlowerRankIsNoCommunication) {
  // Rank 1 computes 4 ms longer, so rank 0 waits 4 ms before the 1 ms that the messages take.
  const RankStep ranks[] = {{.period = 10, .step = 10, .before_reduce = 5, .comm_wait = 5},
                            {.period = 10, .step = 10, .before_reduce = 9, .comm_wait = 1}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split.straggler, 2);
  EXPECT_DOUBLE_EQ(split.exposed_comm, 1);
  EXPECT_DOUBLE_EQ(split.compute, 7);
  EXPECT_EQ(split.slowest_rank, 1);
}

TEST(TimeSplit, WaitingForARankThatWaitsForItsDataIsDataWait) {
  const RankStep ranks[] = {
      {.period = 10, .step = 10, .before_reduce = 4, .comm_wait = 6},
      {.period = 10, .step = 10, .before_reduce = 9, .comm_wait = 1, .data_wait = 5}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split.data_wait, 5) << "half of it rank 0's, for rank 1";
  EXPECT_DOUBLE_EQ(split.straggler, 0);
  EXPECT_DOUBLE_EQ(split.exposed_comm, 1);
  EXPECT_DOUBLE_EQ(split.compute, 4);
}

TEST(TimeSplit, WaitingForARankWithoutACoreIsTheStragglersPart) {
  const RankStep ranks[] = {
      {.period = 10, .step = 10, .before_reduce = 4, .comm_wait = 6, .forward = 4},
      {.period = 10, .step = 10, .before_reduce = 9, .comm_wait = 1, .forward = 8, .core_wait = 4}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split.straggler, 2.5);
  EXPECT_DOUBLE_EQ(split.core_straggler, 2);
  EXPECT_DOUBLE_EQ(split.core_wait, 2);
  EXPECT_DOUBLE_EQ(split.forward, 6);
  EXPECT_DOUBLE_EQ(split.other, 0.5);
}

TEST(SlowRanks, AreNamedByWhatMakesThemSlow) {
  const MeshShape shape{.data = 3};
  const RankStep usual{.step = 1000, .comm_wait = 500};
  RankStep ranks[] = {usual, usual, usual};
  EXPECT_EQ(slow_ranks(shape, ranks).compute.rank, -1);

  ranks[1] = {.step = 1000, .comm_wait = 100};
  ranks[2].data_wait = 300;
  const SlowRanks slow = slow_ranks(shape, ranks);

  EXPECT_EQ(slow.compute.rank, 1);
  EXPECT_DOUBLE_EQ(slow.compute.seconds, 0.9 - 0.2) << "the others' lower median";
  EXPECT_EQ(slow.data.rank, 2);
  EXPECT_DOUBLE_EQ(slow.data.own_seconds, 0.3);
  EXPECT_EQ(slow.core.rank, -1);
}

TEST(SlowRanks, OfTwoTheSlowerOneStandsOutAndOneAloneNever) {
  const RankStep ranks[] = {{.step = 1000, .core_wait = 10}, {.step = 1000, .core_wait = 400}};

  const SlowRanks slow = slow_ranks({.data = 2}, ranks);

  EXPECT_EQ(slow.core.rank, 1);
  EXPECT_DOUBLE_EQ(slow.core.seconds, 0.39);
  EXPECT_EQ(slow_ranks({}, {&ranks[1], 1}).core.rank, -1);
}

TEST(TimeSplit, StagesOfUnequalWorkAreNoStragglers) {
  // The first stage's last pass ends 3 ms after the second's, which waits for its norm.
  const RankStep ranks[] = {
      {.period = 20, .step = 20, .before_reduce = 19, .comm_wait = 0.5},
      {.period = 20, .step = 20, .before_reduce = 16, .comm_wait = 3.5, .bubble = 4}};

  const StepSplit split = split_step(1, {.pipeline = 2}, ranks);

  EXPECT_DOUBLE_EQ(split.bubble, (4 + 3) / 2.0);
  EXPECT_DOUBLE_EQ(split.straggler, 0);
  EXPECT_DOUBLE_EQ(split.exposed_comm, 0.5);
}

TEST(TimeSplit, PartsAddUpAndNoneIsNegative) {
  std::mt19937 engine(3);
  std::uniform_real_distribution<double> some(0, 1);
  const MeshShape shape{.pipeline = 2, .data = 3, .tensor = 2};
  for (int round = 0; round < 100; ++round) {
    std::vector<RankStep> ranks;
    for (int r = 0; r < shape.size(); ++r) {
      const double waits[] = {some(engine), some(engine), some(engine)};
      const double step = waits[0] + waits[1] + waits[2] + 2 + some(engine);
      ranks.push_back(
          {step + some(engine), step, step - waits[0] / 2, waits[0], waits[1], waits[2]});
    }

    const StepSplit split = split_step(1, shape, ranks);

    EXPECT_THAT(sum(split), DoubleNear(split.period, rounding));
    EXPECT_THAT(split.forward + split.backward + split.optimizer + split.other,
                DoubleNear(split.compute, rounding));
    for (const double part : {split.compute, split.data_wait, split.bubble, split.straggler,
                              split.exposed_comm, split.between_steps})
      EXPECT_GE(part, -rounding);
  }
}

TEST(TimeSplit, PrintsNumbersThatReadBackExactly) {
  const std::string line = format_json(StepSplit{.step = 7, .period = 0.1, .slowest_rank = 3});

  EXPECT_THAT(line, HasSubstr("{\"step\":7,\"period_ms\":0.1,"));
  EXPECT_THAT(line, HasSubstr("\"slowest_rank\":3}\n"));
}

}  // namespace
}  // namespace trireme
