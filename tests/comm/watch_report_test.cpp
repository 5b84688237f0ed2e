// SPDX-License-Identifier: Apache-2.0
// The report that two ranks of a group exchange about a stuck call, without MPI.
#include "runtime/comm/watchdog/watch_report.h"

#include <gtest/gtest.h>

#include "runtime/comm/mpi.h"
#include "runtime/comm/watchdog/start_watch.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "tests/comm/call_records.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using test::record;
using Verdict = WatchNote::Verdict;

// Ranks 3 and 5 of a job of 6; rank 3 asks.
class WatchReportTest : public testing::Test {
 protected:
  static CallLog::Id start(CallLog& log, const CallRecord& call) {
    const auto id = log.add(call);
    static_cast<void>(log.start(id));
    return id;
  }
  static void do_call(CallLog& log, const CallRecord& call) {
    const auto id = start(log, call);
    log.finish(id, id, CallState::done);
  }
  [[nodiscard]] std::optional<WatchReport> report() const {
    return WatchReport::of_stuck_call({asker}, CallLog::Clock::now(), 3, 6);
  }
  // The message once rank 5 has answered.
  [[nodiscard]] std::string message() {
    auto result = report();
    if (!result) return "no report";
    for (const auto& question : result->questions()) {
      if (question.to != 5) continue;
      WatchNote note = question.note;
      answer_ask(note, {peer}, 5);
      EXPECT_EQ(note.kind, WatchNote::Kind::answer);
      EXPECT_EQ(note.from, 5);
      result->answer(note);
    }
    return result->message(2);
  }
  void expect_message(std::initializer_list<const char*> parts) {
    const std::string text = message();
    for (const char* const part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << "\nis missing in\n" << text;
  }
  std::shared_ptr<CallLog> asker = std::make_shared<CallLog>("data", 9, 0, std::vector<int>{3, 5});
  std::shared_ptr<CallLog> peer = std::make_shared<CallLog>("data", 9, 1, std::vector<int>{3, 5});
};

TEST_F(WatchReportTest, NothingIsReportedWhileNothingIsStuck) {
  do_call(*asker, record(Verb::all_reduce));

  EXPECT_FALSE(report().has_value());
}

TEST_F(WatchReportTest, EveryRankOfTheJobIsAskedOnceButOnlyMembersAboutTheCall) {
  start(*asker, record(Verb::all_reduce));

  const auto result = report();
  ASSERT_TRUE(result.has_value());
  std::vector<int> to;
  for (const auto& question : result->questions()) {
    to.push_back(question.to);
    EXPECT_EQ(question.note.has_call != 0, question.to == 5);
  }
  std::sort(to.begin(), to.end());
  EXPECT_EQ(to, (std::vector<int>{0, 1, 2, 4, 5}));
}

TEST_F(WatchReportTest, NamesARankThatHasNotCome) {
  for (CallLog* const log : {asker.get(), peer.get()})
    do_call(*log, record(Verb::all_reduce));
  start(*asker, record(Verb::all_gather));

  expect_message({"group data: all_gather(f32, count 12) number 2 has waited", "timeout_seconds: 2",
                  "rank 5 (rank 1 of the group) is late for all_gather(f32, count 12) number 2",
                  "it waits in no call", "its last call in this group was all_reduce"});
}

TEST_F(WatchReportTest, NamesWhatALateRankWaitsFor) {
  start(*asker, record(Verb::all_reduce));
  start(*peer, record(Verb::recv, 0));
  static_cast<void>(peer->add(record(Verb::all_reduce)));

  expect_message(
      {"it has queued the call, but it waits in group data: recv(f32, count 12, from 0)"});
}

TEST_F(WatchReportTest, NamesADifferentCall) {
  start(*asker, record(Verb::all_reduce));
  start(*peer, record(Verb::all_reduce, -1, 7));

  expect_message(
      {"rank 5 (rank 1 of the group) calls something else: "
       "all_reduce(f32, count 7, sum) number 1 (started)"});
}

TEST_F(WatchReportTest, MatchesAMessageWithItsOtherEnd) {
  do_call(*asker, record(Verb::recv, 1));
  do_call(*peer, record(Verb::send, 0));
  start(*asker, record(Verb::recv, 1));
  start(*peer, record(Verb::recv, 0));

  expect_message(
      {"is late for recv(f32, count 12, from 1) number 2: it waits in group data: "
       "recv(f32, count 12, from 0) number 1"});
}

TEST_F(WatchReportTest, SaysSoWhenEverybodyIsThere) {
  start(*asker, record(Verb::all_reduce));
  start(*peer, record(Verb::all_reduce));

  expect_message({"every rank it waits for is in the same call"});
}

TEST_F(WatchReportTest, NamesARankThatDoesNotAnswer) {
  start(*asker, record(Verb::all_reduce));
  const auto result = report();

  ASSERT_TRUE(result.has_value());
  EXPECT_FALSE(result->complete());
  EXPECT_NE(result->message(2).find("rank 5 (rank 1 of the group) does not answer"),
            std::string::npos);
}

TEST_F(WatchReportTest, ReportsACallThatFailedWhileTheRankLivesOn) {
  const auto id = start(*asker, record(Verb::all_reduce));
  asker->finish(id, id, CallState::failed);

  expect_message({"all_reduce(f32, count 12, sum) number 1 failed", "has not ended since"});
}

TEST_F(WatchReportTest, AStuckStepAsksEveryRankForItsDumpAndNamesItself) {
  const WatchReport stuck = WatchReport::of_stuck_step("step 7: forward, for 3.0 s", 3, 6);

  EXPECT_EQ(stuck.questions().size(), 5U);
  EXPECT_FALSE(stuck.complete());
  EXPECT_TRUE(stuck.message(2).starts_with(
      "rank 3 is stuck, but does not wait for other ranks: step 7: forward, for 3.0 s (deadline"));
}

TEST_F(WatchReportTest, ARankThatComputesSaysWhere) {
  const StepWatch steps;
  set_comm_step(7);
  set_activity("forward", 1, 2);
  start(*asker, record(Verb::all_reduce));

  expect_message(
      {"it waits in no call, but is at step 7: forward of chunk 1, micro-batch 2, for "});
  EXPECT_NE(dump_text({peer}, "why").find("\nat step 7: forward of chunk 1"), std::string::npos);
  set_comm_step(-1);
}

TEST_F(WatchReportTest, TheDumpHoldsTheLastCallsOfAllGroups) {
  do_call(*asker, record(Verb::all_reduce));
  start(*peer, record(Verb::send, 0));

  const std::string text = dump_text({asker, peer}, "the reason");
  for (const char* const part :
       {"the reason", "group data (rank 0; its ranks in the job: 3 5)", "done     all_reduce",
        "started  send(f32, count 12, to 0) number 1"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis missing in\n" << text;
  }
}

TEST(StartLimit, GrowsWithRanksBeyond128UnlessItIsSet) {
  EXPECT_EQ(usual_start_seconds(1), 120);
  EXPECT_EQ(usual_start_seconds(128), 120);
  EXPECT_EQ(usual_start_seconds(1024), 344);
  const auto with = [](const char* limit) {
    ::setenv("OMPI_COMM_WORLD_SIZE", "1024", 1);
    ::setenv(start_seconds_variable, limit, 1);
    return start_seconds();
  };
  EXPECT_EQ(with(""), 344);
  EXPECT_EQ(with("7"), 7);
  for (const char* const wrong : {"-1", "soon", "1e9", "5s"})
    test::expect_error(
        ExitCode::config, [&] { (void)with(wrong); }, "TRIREME_START_SECONDS", wrong);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  ::unsetenv(start_seconds_variable);
}

}  // namespace
}  // namespace trireme
