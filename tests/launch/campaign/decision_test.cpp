// SPDX-License-Identifier: Apache-2.0
// A campaign's next action, as a function of its state, the offers and the time.
#include <gmock/gmock.h>

#include "launch/campaign/decision.h"
#include "launch/campaign/journal.h"

namespace trireme::campaign {
namespace {

using Action = Decision::Action;
using Outcome = CampaignState::Outcome;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Optional;

constexpr double now = 1e9;

LayoutOption option(std::int64_t nodes, double step_seconds = 0) {
  return {.nodes = nodes,
          .ranks = 8 * nodes,
          .text = "data=" + std::to_string(8 * nodes),
          .step_seconds = step_seconds};
}

// An attempt that ran for an hour until a minute ago.
Attempt attempt(std::int64_t nodes, double step_seconds, std::int64_t from, std::int64_t to,
                int code = 75) {
  return {.number = 1,
          .phase = Attempt::Phase::ended,
          .nodes = nodes,
          .ranks = 8 * nodes,
          .layout = option(nodes).text,
          .started = now - 3660,
          .ended = now - 60,
          .from_step = from,
          .to_step = to,
          .step_seconds = step_seconds,
          .first_step = now - 3630,
          .code = code};
}

CampaignState state(std::vector<Attempt> attempts = {}) {
  return {.id = "0", .created = now - 7200, .attempts = std::move(attempts), .steps = 10000};
}

const std::vector<LayoutOption> predicted{option(2, 4.0), option(4, 2.2), option(8, 1.5)};
const std::vector<LayoutOption> unknown{option(2), option(4), option(8)};

TEST(CampaignDecision, TakesTheOfferThatIsDoneFirst) {
  // 8 nodes would need 15000 s behind 20000 s of waiting, 4 need 22000 s at once.
  const std::vector<Offer> offers{{"a", 4, 0}, {"a", 8, 20000}};
  const Decision decision = decide_next(state(), predicted, offers, {}, 0, now);
  EXPECT_EQ(decision.action, Action::submit);
  EXPECT_EQ(decision.option, 1U);

  const std::vector<Offer> sooner{{"a", 4, 0}, {"b", 8, 3000}};
  const Decision waits = decide_next(state(), predicted, sooner, {}, 0, now);
  EXPECT_EQ(waits.option, 2U);
  EXPECT_EQ(waits.place, "b");
}

TEST(CampaignDecision, TakesFewerNodesIfMoreAreNotFaster) {
  const std::vector<LayoutOption> flat{option(2, 2.0), option(4, 2.0)};
  EXPECT_EQ(decide_next(state(), flat, std::vector<Offer>{{"", 4, 0}}, {}, 0, now).option, 0U);
}

TEST(CampaignDecision, TakesTheMostNodesIfTimesAreUnknown) {
  const std::vector<Offer> offers{{"a", 4, 0}, {"a", 8, 600}};
  EXPECT_EQ(decide_next(state(), unknown, offers, {}, 0, now).option, 1U);
}

TEST(CampaignDecision, WaitsWithoutAnOfferOfEnoughNodes) {
  const Decision decision =
      decide_next(state(), predicted, std::vector<Offer>{{"a", 1, 0}}, {}, 0, now);
  EXPECT_EQ(decision.action, Action::wait);
  EXPECT_THAT(decision.reason, HasSubstr("no offer"));
}

TEST(CampaignDecision, StaysWithinTheBudgetIfPossible) {
  // 10000 steps: 2 nodes 22.2 node-hours, 4 24.4, 8 33.3.
  const std::vector<Offer> offers{{"a", 8, 0}};
  const Decision decision = decide_next(state(), predicted, offers, {.node_hours = 25}, 0, now);
  EXPECT_EQ(decision.option, 1U);
  EXPECT_EQ(decide_next(state(), predicted, offers, {.node_hours = 22.5}, 0, now).option, 0U);
  const Decision too_little = decide_next(state(), predicted, offers, {.node_hours = 10}, 0, now);
  EXPECT_EQ(too_little.option, 0U);
  EXPECT_THAT(too_little.reason, HasSubstr("is too small for all"));
}

TEST(CampaignDecision, EndsAtItsLimits) {
  const std::vector<Offer> offers{{"a", 8, 0}};
  const CampaignState used = state({attempt(4, 2, 0, 1800)});  // 4 node-hours
  EXPECT_EQ(decide_next(used, predicted, offers, {.node_hours = 4}, 1800, now).outcome,
            Outcome::out_of_budget);
  EXPECT_EQ(decide_next(used, predicted, offers, {.end = now - 1}, 1800, now).outcome,
            Outcome::past_end);
  // Half a minute is no job.
  EXPECT_EQ(decide_next(used, predicted, offers, {.end = now + 30}, 1800, now).outcome,
            Outcome::past_end);
  EXPECT_THAT(seconds_allowed(used, {.node_hours = 6, .end = now + 7200}, 4, now),
              Optional(DoubleNear(1800, 1e-6)));
}

TEST(CampaignDecision, PausesLongerAfterEachFailureAndGivesUp) {
  const Rules rules{.no_progress = 3, .backoff_seconds = 40};
  CampaignState failing = state({attempt(2, 0, 100, 100, 5), attempt(2, 0, 100, 100, 5)});
  const Decision pause =
      decide_next(failing, predicted, std::vector<Offer>{{"", 2, 0}}, rules, 100, now);
  EXPECT_EQ(pause.action, Action::wait);
  EXPECT_EQ(pause.until, now - 60 + 80);
  failing.attempts.push_back(failing.attempts.back());
  EXPECT_EQ(decide_next(failing, predicted, {}, rules, 100, now).outcome, Outcome::given_up);
  failing.counted_from = 2;
  EXPECT_EQ(failing.without_progress(), 0);
  failing.counted_from = 0;
  // An attempt that was never submitted is no failure; one with progress ends the series.
  failing.attempts.back() = {.phase = Attempt::Phase::ended, .ended = now};
  EXPECT_EQ(failing.without_progress(), 2);
  failing.attempts.push_back(attempt(2, 1, 100, 101, 5));
  EXPECT_EQ(failing.without_progress(), 0);
}

TEST(CampaignDecision, LearnsStepTimesFromItsJobs) {
  const CampaignState before = state({attempt(4, 3.3, 0, 100)});
  EXPECT_THAT(expected_step(option(4), before), Optional(3.3));
  EXPECT_THAT(expected_step(option(8), before), Optional(DoubleNear(1.65, 1e-12)));
  CampaignState slow = before;
  slow.attempts.back().predicted_step = 2.2;
  EXPECT_THAT(expected_step(option(8, 1.5), slow), Optional(DoubleNear(2.25, 1e-12)));
  EXPECT_EQ(expected_step(option(8), state()), std::nullopt);
  EXPECT_EQ(restart_seconds(before), 30);
}

CampaignState running(std::int64_t nodes, double step_seconds, double since) {
  Attempt job = attempt(nodes, step_seconds, 0, 0);
  job.phase = Attempt::Phase::running;
  job.started = now - since;
  job.first_step = job.started + 30;
  return state({job});
}

TEST(CampaignDecision, LeavesAJobForOneThatIsDoneMuchSooner) {
  const CampaignState job = running(2, 4, 3600);
  const std::vector<Offer> more{{"a", 8, 0}};
  const Decision decision = decide_running(job, predicted, more, {}, 1000, now);
  EXPECT_EQ(decision.action, Action::stop);
  EXPECT_THAT(decision.reason, HasSubstr("8 nodes"));
  // Not for a small gain, not for the last steps, not too early, and not twice.
  EXPECT_EQ(decide_running(job, predicted, more, {.gain = 3}, 1000, now).action, Action::keep);
  EXPECT_EQ(decide_running(job, predicted, more, {}, 9990, now).action, Action::keep);
  EXPECT_EQ(decide_running(job, predicted, more, {.gain = 0}, 1000, now).action, Action::keep);
  EXPECT_EQ(decide_running(running(2, 4, 600), predicted, more, {}, 1000, now).action,
            Action::keep);
  EXPECT_EQ(decide_running(job, predicted, {}, {}, 1000, now).action, Action::keep);
  CampaignState asked = job;
  asked.attempts.back().asked_to_stop = now - 5;
  EXPECT_EQ(decide_running(asked, predicted, more, {}, 1000, now).action, Action::keep);
}

TEST(CampaignDecision, StopsAJobAtTheBudgetsEnd) {
  const CampaignState job = running(2, 4, 3600);
  const Decision decision = decide_running(job, predicted, {}, {.node_hours = 2}, 1000, now);
  EXPECT_EQ(decision.action, Action::stop);
  EXPECT_THAT(decision.reason, HasSubstr("budget.node_hours"));
  EXPECT_EQ(decide_running(job, predicted, {}, {.end = now}, 1000, now).action, Action::stop);
}

TEST(CampaignDecision, AJobThatWaitsGivesWayToOneThatCouldStart) {
  CampaignState job = running(8, 0, 0);
  job.attempts.back().phase = Attempt::Phase::submitted;
  EXPECT_EQ(decide_running(job, unknown, std::vector<Offer>{{"a", 2, 0}}, {}, 0, now).action,
            Action::stop);
  EXPECT_EQ(decide_running(job, unknown, {}, {}, 0, now).action, Action::keep);
}

TEST(CampaignState, CountsNodeHoursAndUsefulOnes) {
  CampaignState two = state({attempt(4, 2, 0, 900), attempt(2, 3, 900, 900, 5)});
  EXPECT_DOUBLE_EQ(two.node_hours(now), 6);
  EXPECT_DOUBLE_EQ(two.useful_node_hours(), 2);
  two.exclude("n1", "died", now + 10);
  two.exclude("n2", "died", now - 10);
  two.exclude("n1", "again", now + 20);
  EXPECT_THAT(two.excluded_hosts(now), testing::ElementsAre("n1"));
}

TEST(CampaignState, GoodputCountsNoJobThatStillRuns) {
  Attempt first = attempt(4, 2, 0, 0);
  first.phase = Attempt::Phase::running;
  first.ended = 0;
  EXPECT_EQ(goodput_text(state({first}), now),
            "goodput is unknown until the first job has ended; 4.0667 node-hours of the running "
            "job do not count yet");

  EXPECT_THAT(goodput_text(state({attempt(4, 2, 0, 900), first}), now),
              testing::AllOf(HasSubstr("goodput 50.0 %: 2.0000 of 4.0000 node-hours"),
                             HasSubstr("; 4.0667 node-hours of the running job do not count")));
}

TEST(CampaignLayouts, TriesAllOfFewNumbersOfNodesAndSomeOfMany) {
  EXPECT_THAT(node_counts(2, 5), testing::ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(node_counts(5, 100), testing::ElementsAre(5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100));
}

}  // namespace
}  // namespace trireme::campaign
