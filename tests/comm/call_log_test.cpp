// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/call_log.h"

#include <gtest/gtest.h>

#include "tests/comm/call_records.h"

namespace trireme {
namespace {

using test::record;

class CallLogTest : public testing::Test {
 protected:
  [[nodiscard]] static CallLog::Clock::time_point now() { return CallLog::Clock::now(); }
  CallLog log{"data", 7, 0, {0, 4, 8}};
};

TEST_F(CallLogTest, CollectivesAndTheMessagesOfEachPairAndDirectionAreNumberedApart) {
  for (const CallRecord& call :
       {record(Verb::all_reduce), record(Verb::send, 1), record(Verb::send, 2),
        record(Verb::recv, 1), record(Verb::broadcast, 0), record(Verb::send, 1)}) {
    static_cast<void>(log.add(call));
  }
  CallRecord barrier;
  barrier.kind = CallRecord::barrier;
  static_cast<void>(log.add(barrier));

  std::vector<std::uint64_t> numbers;
  for (const auto& entry : log.entries(100))
    numbers.push_back(entry.call.sequence);
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, 1, 1, 1, 2, 2, 1}));
}

TEST_F(CallLogTest, OnlyAStartedCallIsStuck) {
  const auto id = log.add(record(Verb::all_reduce));
  EXPECT_FALSE(log.stuck_since(now()));

  static_cast<void>(log.start(id));
  EXPECT_TRUE(log.stuck_since(now()));
  EXPECT_FALSE(log.stuck_since(now() - std::chrono::seconds(5)));

  log.finish(id, id, CallState::done);
  EXPECT_FALSE(log.stuck_since(now()));
  EXPECT_TRUE(log.over());
}

TEST_F(CallLogTest, AFailedCallStaysStuck) {
  const auto id = log.add(record(Verb::all_reduce));
  static_cast<void>(log.start(id));
  log.finish(id, id, CallState::failed);

  EXPECT_TRUE(log.stuck_since(now()));
  EXPECT_TRUE(log.over());
}

TEST_F(CallLogTest, AHostCallThatEndsEarlierDoesNotHideAnOpenOne) {
  const auto first = log.add(record(Verb::all_reduce));
  const auto second = log.add(record(Verb::all_gather));
  static_cast<void>(log.start(first));
  log.finish(second, second, CallState::done);

  EXPECT_TRUE(log.stuck_since(now()));
  log.finish(first, first, CallState::done);
  EXPECT_TRUE(log.over());
}

TEST_F(CallLogTest, KeepsTheLastCallsWithLabelAndStepAndEveryOpenOne) {
  const auto open = log.add(record(Verb::recv, 2));
  static_cast<void>(log.start(open));
  set_comm_step(3);
  {
    const ScopedCommLabel outer("outer");
    const ScopedCommLabel inner("bucket 1");
    for (int i = 0; i < 100; ++i) {
      const auto id = log.add(record(Verb::all_reduce));
      static_cast<void>(log.start(id));
      log.finish(id, id, CallState::done);
    }
  }
  set_comm_step(-1);

  const auto entries = log.entries(10);
  ASSERT_EQ(entries.size(), 11U);
  EXPECT_EQ(entries[0].to_string(), "recv(f32, count 12, from 2) number 1");
  EXPECT_EQ(entries[10].to_string(),
            "all_reduce(f32, count 12, sum) number 100 \"bucket 1\" of step 3");
}

TEST_F(CallLogTest, ACallThatTheRingLostIsForgottenAndItsEndHarmsNoOther) {
  const auto lost = log.add(record(Verb::all_reduce));
  for (int i = 0; i < static_cast<int>(CallLog::capacity); ++i)
    static_cast<void>(log.add(record(Verb::all_reduce)));
  static_cast<void>(log.start(lost));
  log.finish(lost, lost, CallState::done);

  EXPECT_FALSE(log.stuck_since(now()));
  EXPECT_EQ(log.entries(1000).size(), CallLog::capacity);
  for (const auto& entry : log.entries(1000))
    EXPECT_EQ(entry.state, CallState::queued);
}

TEST_F(CallLogTest, ALongLabelIsCut) {
  const std::string text(200, 'x');
  const ScopedCommLabel label(text);

  EXPECT_EQ(current_comm_label().to_string(), " \"" + std::string(63, 'x') + "\"");
}

TEST_F(CallLogTest, AThreadCanTakeOverTheLabelOfACall) {
  set_comm_step(5);
  const ScopedCommLabel here("here");
  {
    CommLabel there;
    there.step = 9;
    there.text[0] = 'x';
    const ScopedCommLabel adopted(there);
    EXPECT_EQ(current_comm_label().to_string(), " \"x\" of step 9");
  }

  EXPECT_EQ(current_comm_label().to_string(), " \"here\" of step 5");
  set_comm_step(-1);
}

}  // namespace
}  // namespace trireme
