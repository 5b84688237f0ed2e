// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/telemetry/bottleneck/rank_times.h"

namespace trireme {
namespace {

using T = TimePart;

TEST(SlowRanks, AreNamedWithTheirCause) {
  const RankMesh mesh{.data = 3};
  const Times usual{{T::period, 1000}, {T::compute, 500}, {T::comm_wait, 500}};
  Times ranks[] = {usual, usual, usual};
  EXPECT_EQ(slow_ranks(mesh, ranks).compute.rank, -1);

  ranks[1][T::compute] = 900;
  ranks[2][T::data_wait] = 300;
  ranks[0][T::checkpoint] = 200;
  const SlowRanks slow = slow_ranks(mesh, ranks);

  EXPECT_EQ(slow.compute.rank, 1);
  EXPECT_DOUBLE_EQ(slow.compute.seconds, 0.9 - 0.5) << "the others' lower median";
  EXPECT_EQ(slow.data.rank, 2);
  EXPECT_DOUBLE_EQ(slow.data.own_seconds, 0.3);
  EXPECT_EQ(slow.checkpoint.rank, 0);
  EXPECT_EQ(slow.core.rank, -1);
  EXPECT_EQ(slow.messages.rank, -1);
}

TEST(SlowRanks, AreComparedAtEqualMicroBatches) {
  const Times less{
      {T::period, 1000}, {T::compute, 500}, {T::comm_wait, 500}, {T::micro_batches, 1}};
  const Times more{
      {T::period, 1000}, {T::compute, 900}, {T::comm_wait, 100}, {T::micro_batches, 2}};
  Times ranks[] = {more, less, less, less};
  EXPECT_EQ(slow_ranks({.data = 4}, ranks).compute.rank, -1);
  EXPECT_EQ(slow_ranks({.data = 4}, ranks).messages.rank, -1);

  ranks[2][T::compute] = 800;

  EXPECT_EQ(slow_ranks({.data = 4}, ranks).compute.rank, 2);
  EXPECT_DOUBLE_EQ(slow_ranks({.data = 4}, ranks).compute.seconds, 0.3);
}

TEST(SlowRanks, TheSlowerOfTwoIsNamedButNeverASingleOne) {
  const Times ranks[] = {{{T::period, 1000}, {T::core_wait, 10}},
                         {{T::period, 1000}, {T::core_wait, 400}}};

  const SlowRanks slow = slow_ranks({.data = 2}, ranks);

  EXPECT_EQ(slow.core.rank, 1);
  EXPECT_DOUBLE_EQ(slow.core.seconds, 0.39);
  EXPECT_EQ(slow_ranks({}, {&ranks[1], 1}).core.rank, -1);
}

TEST(SlowRanks, IfAllWaitForCoresOneIsNamedOnlyAtThreeTimesTheWait) {
  Times ranks[] = {{{T::period, 1000}, {T::core_wait, 150}},
                   {{T::period, 1000}, {T::core_wait, 350}}};
  EXPECT_EQ(slow_ranks({.data = 2}, ranks).core.rank, -1);

  ranks[1][T::core_wait] = 460;

  EXPECT_EQ(slow_ranks({.data = 2}, ranks).core.rank, 1);
}

TEST(SlowRanks, LateMessagesAreUnexplainedByWork) {
  const Times usual{{T::period, 1000}, {T::compute, 500}, {T::message_wait, 400}};
  Times ranks[] = {usual, usual, usual};
  ranks[1][T::message_wait] = 150;

  const SlowRanks slow = slow_ranks({.tensor = 3}, ranks);

  EXPECT_EQ(slow.messages.rank, 1);
  EXPECT_DOUBLE_EQ(slow.messages.seconds, 0.25);
  ranks[2][T::core_wait] = 260;
  EXPECT_EQ(slow_ranks({.tensor = 3}, ranks).messages.rank, -1) << "cores are wanting";
  ranks[2][T::core_wait] = 0;
  ranks[1][T::compute] += 240;
  EXPECT_EQ(slow_ranks({.tensor = 3}, ranks).messages.rank, -1) << "it works as much longer";
}

TEST(SlowRanks, SmallDifferencesDoNotCountWithoutEnoughCores) {
  Times ranks[] = {{{T::period, 1000}, {T::compute, 100}, {T::core_wait, 600}},
                   {{T::period, 1000}, {T::compute, 180}, {T::core_wait, 600}}};
  EXPECT_EQ(slow_ranks({.data = 2}, ranks).compute.rank, -1);

  ranks[1][T::core_wait] = 100;
  EXPECT_EQ(slow_ranks({.data = 2}, ranks).compute.rank, -1) << "less of its waits may be known";

  ranks[1][T::compute] = 280;
  EXPECT_EQ(slow_ranks({.data = 2}, ranks).compute.rank, 1);
}

TEST(SlowRanks, StagesOfOneRankAreComparedButAreNoFault) {
  const Times ranks[] = {{{T::period, 1000}, {T::compute, 300}},
                         {{T::period, 1000}, {T::compute, 800}}};

  const SlowRanks slow = slow_ranks({.pipeline = 2}, ranks);

  EXPECT_EQ(slow.compute.rank, -1);
  EXPECT_EQ(slow.stage.rank, 1);
  EXPECT_DOUBLE_EQ(slow.stage.seconds, 0.5);
}

}  // namespace
}  // namespace trireme
