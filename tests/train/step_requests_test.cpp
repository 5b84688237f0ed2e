// SPDX-License-Identifier: Apache-2.0
// Times of checkpoints and stops for one rank: signals, clocks, agreement.
#include "runtime/train/step_requests.h"
#include "tests/train/send_signal.h"

#include <gtest/gtest.h>

#include <csignal>

#include "runtime/train/signal_requests.h"

namespace trireme {
namespace {

using Clock = StepRequests::Clock;
using std::chrono::duration_cast;

class StepRequestsTest : public testing::Test {
 protected:
  [[nodiscard]] Clock::time_point after(double seconds) const {
    return start_ + duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  [[nodiscard]] StepRequests make(const StepRequestOptions& options) const {
    return StepRequests(options, start_);
  }
  // One rank alone: its request is the agreement.
  StepDecision step(StepRequests& requests, double seconds, std::int64_t done = 1) const {
    requests.agree(requests.flags(after(seconds)));
    return requests.take(done);
  }

  const Clock::time_point start_ = Clock::now();
  const SignalRequests signals_;
};

TEST(SignalRequests, AUserSignalAfterTheRunIsIgnoredButNotInTheNextRun) {
  { const SignalRequests over; }
  std::raise(SIGUSR1);

  const SignalRequests next;
  EXPECT_EQ(SignalRequests::checkpoints(), 0);
  test::send_signal(SIGUSR1);
  EXPECT_EQ(SignalRequests::checkpoints(), 1);
}

TEST_F(StepRequestsTest, AnInterruptStopsWithACheckpoint) {
  StepRequests requests = make({});
  test::send_signal(SIGINT);

  const StepDecision decision = step(requests, 1);

  EXPECT_TRUE(decision.checkpoint);
  EXPECT_EQ(decision.stop, StopReason::interrupted);
}

TEST(SignalRequests, ASecondInterruptEndsTheProcessAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const SignalRequests signals;
        test::send_signal(SIGINT);
        test::send_signal(SIGINT);
      },
      testing::ExitedWithCode(interrupted_exit), "interrupted a second time");
}

TEST(SignalRequests, AnInterruptThatWasIgnoredStaysIgnored) {
  std::signal(SIGINT, SIG_IGN);
  {
    const SignalRequests signals;
    std::raise(SIGINT);
    test::send_signal(SIGUSR1);
    EXPECT_FALSE(SignalRequests::interrupted());
  }
  std::signal(SIGINT, SIG_DFL);
}

TEST_F(StepRequestsTest, NothingIsDueByItself) {
  StepRequests requests = make({.leader = true});

  const StepDecision decision = step(requests, 1e6);

  EXPECT_FALSE(decision.checkpoint);
  EXPECT_EQ(decision.stop, StopReason::none);
}

TEST_F(StepRequestsTest, StepsAreCounted) {
  StepRequests requests = make({.every_steps = 5});

  for (std::int64_t done = 1; done <= 12; ++done)
    EXPECT_EQ(requests.take(done).checkpoint, done == 5 || done == 10) << done;
}

TEST_F(StepRequestsTest, ASignalGivesOneCheckpointAndTheRunGoesOn) {
  StepRequests requests = make({});
  test::send_signal(SIGUSR1);

  const StepDecision first = step(requests, 1), second = step(requests, 2);
  test::send_signal(SIGUSR1);
  test::send_signal(SIGUSR1);
  const StepDecision third = step(requests, 3), fourth = step(requests, 4);

  EXPECT_TRUE(first.checkpoint);
  EXPECT_FALSE(second.checkpoint);
  EXPECT_TRUE(third.checkpoint);
  EXPECT_FALSE(fourth.checkpoint);
  EXPECT_EQ(third.stop, StopReason::none);
}

TEST_F(StepRequestsTest, ASignalThatReachesRanksAtDifferentStepsCountsOnce) {
  StepRequests requests = make({});
  StepFlags agreed;
  agreed[StepFlags::checkpoint_signals] = 1;  // another rank has it already
  requests.agree(agreed);
  EXPECT_TRUE(requests.take(1).checkpoint);

  test::send_signal(SIGUSR1);

  EXPECT_FALSE(step(requests, 1, 2).checkpoint);
}

TEST_F(StepRequestsTest, TerminationStopsWithACheckpoint) {
  StepRequests requests = make({});
  test::send_signal(SIGTERM);

  const StepDecision decision = step(requests, 1);

  EXPECT_TRUE(decision.checkpoint);
  EXPECT_EQ(decision.stop, StopReason::terminated);
}

TEST_F(StepRequestsTest, OnlyTheLeadersClockCounts) {
  const StepRequestOptions options{.every_minutes = 1, .deadlines = {.configured = 90}};
  StepRequests follower = make(options);

  EXPECT_EQ(follower.flags(after(1000)), StepFlags{});
}

TEST_F(StepRequestsTest, MinutesCountFromTheLastCheckpointOfAnyCause) {
  StepRequests requests = make({.leader = true, .every_minutes = 1});

  EXPECT_FALSE(step(requests, 59).checkpoint);
  requests.saved(after(59));
  EXPECT_FALSE(step(requests, 100).checkpoint);
  EXPECT_TRUE(step(requests, 119.5).checkpoint);
  EXPECT_FALSE(step(requests, 120).checkpoint);
  EXPECT_TRUE(step(requests, 180).checkpoint);
}

TEST_F(StepRequestsTest, SelfTestsAreDueByTheClockAndAreNoCheckpoints) {
  StepRequests requests = make({.leader = true, .test_minutes = 1});

  EXPECT_FALSE(step(requests, 59).self_test);
  const StepDecision decision = step(requests, 61);
  EXPECT_TRUE(decision.self_test);
  EXPECT_FALSE(decision.checkpoint);
  EXPECT_FALSE(step(requests, 120).self_test);
  EXPECT_TRUE(step(requests, 121).self_test);
}

TEST_F(StepRequestsTest, TheConfiguredDeadlineStopsTheRunThen) {
  StepRequests requests = make({.leader = true, .deadlines = {.configured = 90}});

  EXPECT_EQ(step(requests, 89.9).stop, StopReason::none);
  const StepDecision decision = step(requests, 90.1);

  EXPECT_EQ(decision.stop, StopReason::deadline);
  EXPECT_TRUE(decision.checkpoint);
}

TEST_F(StepRequestsTest, TheEndOfTheAllocationLeavesTimeForAsLongASaveAsWasMeasured) {
  const StepRequestOptions options{.leader = true, .deadlines = {.allocation = 1000}};
  StepRequestOptions known = options;
  known.earlier_save_seconds = 20;
  StepRequests unknown = make(options), slow = make(options), quick = make(options),
               as_before = make(known), slower_than_before = make(known);
  slow.save_took(400);
  slow.save_took(300);
  quick.save_took(1);
  slower_than_before.save_took(50);

  // Steps of a second; the first that stops.
  const auto stop_of = [&](StepRequests& requests) {
    double at = 1;
    while (step(requests, at).stop == StopReason::none && at < 2000)
      ++at;
    return at;
  };
  EXPECT_EQ(stop_of(slow), 1000 - 400 - 3 - 30);
  EXPECT_EQ(stop_of(unknown), 1000 - 60 - 3 - 30);
  EXPECT_EQ(stop_of(quick), 1000 - 1 - 3 - 30);
  EXPECT_EQ(stop_of(as_before), 1000 - 30 - 3 - 30);
  EXPECT_EQ(stop_of(slower_than_before), 1000 - 50 - 3 - 30);
}

TEST_F(StepRequestsTest, AnUnfinishedSaveDoesNotCountAsFast) {
  StepRequests requests = make({.leader = true, .deadlines = {.allocation = 1000}});
  requests.saved(after(1));

  EXPECT_EQ(step(requests, 905).stop, StopReason::none);
  EXPECT_EQ(step(requests, 906).stop, StopReason::none);
  EXPECT_EQ(step(requests, 907).stop, StopReason::deadline);
}

TEST_F(StepRequestsTest, TheStartIsNoStep) {
  StepRequests requests = make({.leader = true, .deadlines = {.allocation = 1000}});

  for (double at = 500; at <= 505; ++at)
    EXPECT_EQ(step(requests, at).stop, StopReason::none);

  EXPECT_EQ(requests.seconds_to_first_step(), 500);
  EXPECT_EQ(requests.step_seconds(), 1);
  EXPECT_EQ(requests.save_seconds(), std::nullopt);
}

}  // namespace
}  // namespace trireme
