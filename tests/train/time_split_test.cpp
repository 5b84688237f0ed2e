// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/time_split.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "runtime/train/meters/core_waits.h"
#include "runtime/train/meters/step_reports.h"

namespace trireme {
namespace {

using T = TimePart;

using testing::DoubleNear;
using testing::HasSubstr;

constexpr double rounding = 1e-9;

double sum(const StepSplit& split) {
  return split.times.sum(time_use::split) - split[T::period] - split[T::core_wait] -
         split[T::core_straggler];
}

TEST(TimeSplit, OneRankOnlyComputesAndWaitsForData) {
  // Its comm stream computes sums.
  const Times rank{
      {T::period, 12}, {T::step, 10}, {T::before_reduce, 9}, {T::comm_wait, 1}, {T::data_wait, 2}};

  const StepSplit split = split_step(1, {}, {&rank, 1});

  EXPECT_DOUBLE_EQ(split[T::compute], 8);
  EXPECT_DOUBLE_EQ(split[T::data_wait], 2);
  EXPECT_DOUBLE_EQ(split[T::between_steps], 2);
  EXPECT_DOUBLE_EQ(split[T::straggler] + split[T::exposed_comm] + split[T::bubble], 0);
}

TEST(TimeSplit, WaitingForASlowerRankIsNoCommunication) {
  // Rank 1 computes 4 ms longer, so rank 0 waits 4 ms before the 1 ms that the messages take.
  const Times ranks[] = {
      {{T::period, 10}, {T::step, 10}, {T::before_reduce, 5}, {T::comm_wait, 5}},
      {{T::period, 10}, {T::step, 10}, {T::before_reduce, 9}, {T::comm_wait, 1}}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split[T::straggler], 2);
  EXPECT_DOUBLE_EQ(split[T::exposed_comm], 1);
  EXPECT_DOUBLE_EQ(split[T::compute], 7);
  EXPECT_EQ(split.slowest_rank, 1);
}

TEST(TimeSplit, WaitingForARankThatWaitsForItsDataIsDataWait) {
  const Times ranks[] = {{{T::period, 10}, {T::step, 10}, {T::before_reduce, 4}, {T::comm_wait, 6}},
                         {{T::period, 10},
                          {T::step, 10},
                          {T::before_reduce, 9},
                          {T::comm_wait, 1},
                          {T::data_wait, 5}}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split[T::data_wait], 5) << "half of it rank 0's, for rank 1";
  EXPECT_DOUBLE_EQ(split[T::straggler], 0);
  EXPECT_DOUBLE_EQ(split[T::exposed_comm], 1);
  EXPECT_DOUBLE_EQ(split[T::compute], 4);
}

TEST(TimeSplit, WaitingForARankWithoutACoreIsTheStragglersPart) {
  const Times ranks[] = {
      {{T::period, 10}, {T::step, 10}, {T::before_reduce, 4}, {T::comm_wait, 6}, {T::forward, 4}},
      {{T::period, 10},
       {T::step, 10},
       {T::before_reduce, 9},
       {T::comm_wait, 1},
       {T::forward, 8},
       {T::core_wait, 4}}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split[T::straggler], 2.5);
  EXPECT_DOUBLE_EQ(split[T::core_straggler], 2);
  EXPECT_DOUBLE_EQ(split[T::core_wait], 2 + 2);
  EXPECT_DOUBLE_EQ(split[T::forward], 6);
  EXPECT_DOUBLE_EQ(split[T::other], 0.5);
}

TEST(TimeSplit, AThreadThatPollsWithoutACoreForALateRankWaitsForTheRank) {
  // Rank 1 computes 4 ms longer; rank 0's thread had no core for 3 of the 5 ms that it waits, which
  // matters only in the last one.
  const Times ranks[] = {
      {{T::period, 10},
       {T::step, 10},
       {T::before_reduce, 5},
       {T::comm_wait, 2},
       {T::core_wait, 3},
       {T::reduce_wait, 2},
       {T::other_core_wait, 3},
       {T::comm_core_wait, 3}},
      {{T::period, 10}, {T::step, 10}, {T::before_reduce, 9}, {T::comm_wait, 1}}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);
  std::vector<Times> sums(2);
  add_to(sums, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split[T::straggler], 3 / 2.0);
  EXPECT_DOUBLE_EQ(split[T::core_wait], 1 / 2.0);
  EXPECT_DOUBLE_EQ(split[T::exposed_comm], 1);
  EXPECT_DOUBLE_EQ(sums[1][T::late], 3);
  EXPECT_DOUBLE_EQ(sums[0][T::core_wait], 1);
}

TEST(LackOfCores, OfTheTrainingThreadIsSplitByActivity) {
  // Of 20 ms it computed 6, slept 5 and had no core for 9. Its waits take 8: for 3 of them it was
  // awake.
  const LackOfCores lack = lack_of_cores(20, {.stalls = 6, .reduce = 2}, {.cpu = 6, .waits = 9});

  EXPECT_DOUBLE_EQ(lack.work, 6);
  EXPECT_DOUBLE_EQ(lack.stalls, 3 * 6 / 8.0);
  EXPECT_DOUBLE_EQ(lack.reduce, 3 * 2 / 8.0);
}

TEST(LackOfCores, OfMessageAndDataThreadsCountsDuringWaitsForThem) {
  const LackOfCores lack = lack_of_cores(20, {.stalls = 4, .reduce = 3, .bubble = 2, .data = 1},
                                         {.cpu = 10, .reduce = 1, .messages = 30, .data = 5});

  EXPECT_DOUBLE_EQ(lack.work, 0);
  EXPECT_DOUBLE_EQ(lack.stalls, 4);
  EXPECT_DOUBLE_EQ(lack.reduce, 1);
  EXPECT_DOUBLE_EQ(lack.data, 1);
  EXPECT_DOUBLE_EQ(lack.messages(), 5);
}

TEST(LackOfCores, IsNoneOfAThreadThatSleepsInItsWork) {
  const LackOfCores lack = lack_of_cores(20, {.reduce = 4}, {.cpu = 2});

  EXPECT_DOUBLE_EQ(lack.work + lack.messages() + lack.data, 0);
}

TEST(TimeSplit, WaitsForCoresBetweenStepsAreNoComputation) {
  const Times rank{{T::period, 20},        {T::step, 10},      {T::before_reduce, 10},
                   {T::forward, 9},        {T::core_wait, 11}, {T::between_core_wait, 8},
                   {T::other_core_wait, 9}};

  const StepSplit split = split_step(1, {}, {&rank, 1});
  std::vector<Times> sums(1);
  add_to(sums, {}, {&rank, 1});

  EXPECT_DOUBLE_EQ(split[T::core_wait], 11);
  EXPECT_DOUBLE_EQ(split[T::other_core_wait], 9);
  EXPECT_DOUBLE_EQ(sums[0][T::compute], 7);
  EXPECT_DOUBLE_EQ(sums[0][T::between], 2);
  EXPECT_DOUBLE_EQ(sums[0][T::core_wait], 11);
}

TEST(TimeSplit, WaitingForAPeerInTheBubbleIsBubble) {
  // The neighbour of the first stage's rank 1 is late, so rank 0 waits for rank 1.
  const Times usual{
      {T::period, 20}, {T::step, 20}, {T::before_reduce, 12}, {T::comm_wait, 6}, {T::bubble, 8}};
  Times held = usual;
  held[T::bubble] += 5;
  held[T::comm_wait] -= 5;
  held[T::before_reduce] += 5;
  Times slow = usual;
  slow[T::comm_wait] -= 5;
  slow[T::before_reduce] += 5;
  const Times ranks[] = {usual, held, usual, slow};

  const StepSplit split = split_step(1, {.pipeline = 2, .data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split[T::bubble], (8 + 5 + 8 + 5 + 8 + 8) / 4.0);
  EXPECT_DOUBLE_EQ(split[T::straggler], 5 / 4.0);
  EXPECT_DOUBLE_EQ(split[T::exposed_comm], 4 / 4.0);
  EXPECT_THAT(sum(split), DoubleNear(split[T::period], rounding));
}

TEST(TimeSplit, WaitingForARanksCheckpointIsTheStragglersPart) {
  // Rank 1 was idle for 5 ms longer before the step, so rank 0 waits 4 ms more than the 1 ms of
  // the messages.
  const Times ranks[] = {{{T::period, 12},
                          {T::step, 10},
                          {T::before_reduce, 4},
                          {T::comm_wait, 6},
                          {T::checkpoint, 1}},
                         {{T::period, 12},
                          {T::step, 5},
                          {T::before_reduce, 4},
                          {T::comm_wait, 1},
                          {T::checkpoint, 6}}};

  const StepSplit split = split_step(1, {.data = 2}, ranks);

  EXPECT_DOUBLE_EQ(split[T::checkpoint], 3.5);
  EXPECT_DOUBLE_EQ(split[T::checkpoint_straggler], 2.5);
  EXPECT_DOUBLE_EQ(split[T::straggler], 2.5);
  EXPECT_DOUBLE_EQ(split[T::exposed_comm], 1);
  EXPECT_THAT(sum(split), DoubleNear(split[T::period], rounding));
}

TEST(TimeSplit, ExposedCommunicationIsSplitByPurpose) {
  const Times rank{{T::period, 10},    {T::step, 10},       {T::before_reduce, 6},
                   {T::comm_wait, 6},  {T::reduce_wait, 3}, {T::tensor_comm, 2},
                   {T::gather_comm, 1}};

  const StepSplit split = split_step(1, {.data = 2}, std::vector(2, rank));

  EXPECT_DOUBLE_EQ(split[T::exposed_comm], 6);
  EXPECT_DOUBLE_EQ(split[T::reduce_comm], 3);
  EXPECT_DOUBLE_EQ(split[T::tensor_comm], 2);
  EXPECT_DOUBLE_EQ(split[T::gather_comm], 1);
}

TEST(TimeSplit, WaitsForExpertsAreOfTheirPurposeAndTheirCause) {
  const Times behind{{T::period, 10},   {T::step, 10},       {T::before_reduce, 10},
                     {T::comm_wait, 6}, {T::expert_comm, 6}, {T::expert_wait, 4}};
  const Times fullest{{T::period, 10},
                      {T::step, 10},
                      {T::before_reduce, 10},
                      {T::comm_wait, 2},
                      {T::expert_comm, 2}};

  const StepSplit split = split_step(1, {.data = 2}, std::vector{behind, fullest});

  EXPECT_DOUBLE_EQ(split[T::straggler], 2);
  EXPECT_DOUBLE_EQ(split[T::expert_comm], split[T::exposed_comm]);
  EXPECT_DOUBLE_EQ(split[T::expert_wait], 2);
}

TEST(TimeSplit, WaitsForExpertsFollowFromTheRowsAndTheirTime) {
  // Each of 2 ms; the third rank has no rows and the second one's waits were shorter.
  std::vector<RankStep> ranks(3);
  ranks[0].experts = {.own_rows = 30, .behind_rows = 0, .milliseconds = 60};
  ranks[1].experts = {.own_rows = 10, .behind_rows = 20, .milliseconds = 20};
  ranks[2].experts = {.behind_rows = 30};
  std::vector<Times> times{{{T::expert_comm, 1}}, {{T::expert_comm, 35}}, {{T::expert_comm, 90}}};

  add_waits_for_experts(times, ranks);

  EXPECT_DOUBLE_EQ(times[0][T::expert_wait], 0);
  EXPECT_DOUBLE_EQ(times[1][T::expert_wait], 35);
  EXPECT_DOUBLE_EQ(times[2][T::expert_wait], 60);
}

TEST(TimeSplit, TrafficOfExpertsIsThatOfAllGroups) {
  std::vector<RankStep> ranks(3);
  EXPECT_FALSE(traffic_of(ranks));
  ranks[0].experts.passes = {
      .passes = 2, .in_rounds = 1, .rows = 100, .off_rank = 40, .off_node = 10, .fullest = 150};
  ranks[2].experts.passes = {.passes = 2, .rows = 100, .off_rank = 60, .fullest = 100};

  const std::optional<ExpertTraffic> traffic = traffic_of(ranks);

  ASSERT_TRUE(traffic);
  EXPECT_EQ(traffic->passes, 4);
  EXPECT_EQ(traffic->in_rounds, 1);
  EXPECT_DOUBLE_EQ(traffic->off_rank, 0.5);
  EXPECT_DOUBLE_EQ(traffic->off_node, 0.05);
  EXPECT_DOUBLE_EQ(traffic->rank_load, 1.25);
}

TEST(RankTimes, TheLastRankIsLateByItsWorkOrItsMessages) {
  const Times usual{{T::period, 100}, {T::step, 100}, {T::comm_wait, 40}, {T::message_wait, 40}};
  Times slow = usual, late = usual;
  slow[T::comm_wait] = slow[T::message_wait] = 10;
  late[T::message_wait] = 15;
  std::vector<Times> sums(3);

  add_to(sums, {.data = 3}, std::vector{usual, slow, usual});
  add_to(sums, {.data = 3}, std::vector{late, usual, usual});
  add_to(sums, {.data = 3}, std::vector{usual, usual, usual});

  EXPECT_DOUBLE_EQ(sums[1][T::late], 30);
  EXPECT_DOUBLE_EQ(sums[1][T::late_steps], 1);
  EXPECT_DOUBLE_EQ(sums[0][T::late], 25);
  EXPECT_DOUBLE_EQ(sums[0][T::late_steps], 1);
  EXPECT_DOUBLE_EQ(sums[2][T::late_steps], 0);
  EXPECT_DOUBLE_EQ(sums[1][T::compute], 60 + 90 + 60);
}

TEST(RankTimes, ARankWithMoreWorkIsNotLateForIt) {
  const Times less{{T::period, 100},
                   {T::step, 100},
                   {T::comm_wait, 50},
                   {T::message_wait, 50},
                   {T::micro_batches, 1}};
  const Times more{{T::period, 100}, {T::step, 100}, {T::micro_batches, 2}};
  Times slow = more, other = more;
  other[T::comm_wait] = other[T::message_wait] = 10;
  std::vector<Times> sums(3);

  add_to(sums, {.data = 3}, std::vector{more, less, less});
  EXPECT_EQ(sums[0][T::late_steps], 0);
  add_to(sums, {.data = 3}, std::vector{other, slow, less});

  EXPECT_DOUBLE_EQ(sums[1][T::late], 10);
  EXPECT_EQ(sums[0][T::late_steps] + sums[2][T::late_steps], 0);
  EXPECT_EQ(sums[0][T::micro_batches], 4);
}

TEST(TimeSplit, StagesOfUnequalWorkAreNoStragglers) {
  // The first stage's last pass ends 3 ms after the second's, which waits for its norm.
  const Times ranks[] = {
      {{T::period, 20}, {T::step, 20}, {T::before_reduce, 19}, {T::comm_wait, 0.5}},
      {{T::period, 20},
       {T::step, 20},
       {T::before_reduce, 16},
       {T::comm_wait, 3.5},
       {T::bubble, 4}}};

  const StepSplit split = split_step(1, {.pipeline = 2}, ranks);

  EXPECT_DOUBLE_EQ(split[T::bubble], (4 + 3) / 2.0);
  EXPECT_DOUBLE_EQ(split[T::straggler], 0);
  EXPECT_DOUBLE_EQ(split[T::exposed_comm], 0.5);
}

TEST(TimeSplit, PartsAddUpAndNoneIsNegative) {
  std::mt19937 engine(3);
  std::uniform_real_distribution<double> some(0, 1);
  const MeshShape shape{.pipeline = 2, .data = 3, .tensor = 2};
  for (int round = 0; round < 100; ++round) {
    std::vector<Times> ranks;
    for (int r = 0; r < shape.size(); ++r) {
      const double waits[] = {some(engine), some(engine), some(engine)};
      const double step = waits[0] + waits[1] + waits[2] + 2 + some(engine);
      ranks.push_back({{T::period, step + some(engine)},
                       {T::step, step},
                       {T::before_reduce, step - waits[0] / 2},
                       {T::comm_wait, waits[0]},
                       {T::bubble, waits[1]},
                       {T::data_wait, waits[2]}});
    }

    const StepSplit split = split_step(1, shape, ranks);

    EXPECT_THAT(sum(split), DoubleNear(split[T::period], rounding));
    EXPECT_THAT(split[T::forward] + split[T::backward] + split[T::optimizer] + split[T::other],
                DoubleNear(split[T::compute], rounding));
    for (const double part : {split[T::compute], split[T::data_wait], split[T::bubble],
                              split[T::straggler], split[T::exposed_comm], split[T::between_steps]})
      EXPECT_GE(part, -rounding);
  }
}

TEST(TimeSplit, PrintsNumbersThatReadBackExactly) {
  const std::string line =
      format_json(StepSplit{.step = 7, .times = {{T::period, 0.1}}, .slowest_rank = 3});

  EXPECT_THAT(line, HasSubstr("{\"step\":7,\"period_ms\":0.1,"));
  EXPECT_THAT(line, HasSubstr("\"slowest_rank\":3}\n"));
}

TEST(SlowReads, AreThoseOfTheRankThatWaitedLongest) {
  std::vector<RankStep> ranks(3);
  EXPECT_FALSE(slow_read_of(ranks).has_value());
  const std::uint64_t file = 0xfedcba9876543210U;
  ranks[0] = {.times = {{T::data_wait, 3}}, .slow_file = {.file = 1, .seconds = 9}};
  ranks[1] = {.times = {{T::data_wait, 5}},
              .slow_file = {.file = file, .seconds = 0.25, .bytes = 1000}};

  const auto slowest = slow_read_of(ranks);

  ASSERT_TRUE(slowest.has_value());
  EXPECT_EQ(slowest->rank, 1);
  EXPECT_EQ(slowest->wait_ms, 5);
  EXPECT_EQ(slowest->file, file) << "all 64 bits travel";
  EXPECT_EQ(slowest->seconds, 0.25);
  EXPECT_EQ(slowest->bytes, 1000);
}

TEST(Joules, AreKnownIfAllCountingRanksKnowTheirs) {
  std::vector<RankStep> ranks(4);
  EXPECT_EQ(joules_of(ranks), std::nullopt);  // without a counter
  ranks[0].joules = 3;
  ranks[2].joules = 4.5;  // the first of the second host
  EXPECT_EQ(joules_of(ranks), 7.5);
  ranks[2].joules = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(joules_of(ranks), std::nullopt);
}

}  // namespace
}  // namespace trireme
