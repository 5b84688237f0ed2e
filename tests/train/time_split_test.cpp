// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/time_split.h"

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
  const RankStep rank{.period = 12, .step = 10, .before_reduce = 9, .data_wait = 2};

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
