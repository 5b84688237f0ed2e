// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/bottleneck/bottleneck.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "runtime/telemetry/machine_load.h"

namespace trireme {
namespace {

using T = TimePart;

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The first facts must give the advice, the second, which differ in one value, must not.
struct Fit {
  std::string_view text;  // start of the advice
  Bottleneck bottleneck;
  RunFacts given, not_given;
};

const std::vector<Fit>& fits() {
  static const std::vector<Fit> all{
      {"raise train.global_batch (changes the training): gradients",
       Bottleneck::exposed_comm,
       {.ranks = 2, .data = 2},
       {.ranks = 2, .tensor = 2}},
      {"lower parallel.tensor",
       Bottleneck::exposed_comm,
       {.ranks = 2, .tensor = 2},
       {.ranks = 2, .data = 2}},
      {"lower parallel.spatial",
       Bottleneck::exposed_comm,
       {.ranks = 2, .tensor = 2, .cuts_samples = true},
       {.ranks = 2, .tensor = 2}},
      {"lower parallel.context",
       Bottleneck::exposed_comm,
       {.ranks = 2, .data = 2, .context = 2},
       {.ranks = 2, .data = 2}},
      {"keep tensor groups, or ranks of spatial parallelism, within a host",
       Bottleneck::exposed_comm,
       {.ranks = 2, .tensor = 2, .hosts = 2},
       {.ranks = 2, .tensor = 2, .hosts = 1}},
      {"lower parallel.zero",
       Bottleneck::exposed_comm,
       {.ranks = 2, .data = 2, .zero = 3},
       {.ranks = 2, .data = 2, .zero = 2}},
      {"use fewer ranks", Bottleneck::exposed_comm, {.ranks = 2}, {.ranks = 1}},
      {"raise model.balance_loss", Bottleneck::unbalanced_experts, {.ranks = 2}, {.ranks = 1}},
      {"raise train.global_batch (changes the training) or",
       Bottleneck::bubble,
       {.ranks = 2, .pipeline = 2},
       {.ranks = 2}},
      {"try parallel.schedule",
       Bottleneck::bubble,
       {.ranks = 2, .pipeline = 2},
       {.ranks = 2, .pipeline = 2, .zero_bubble = true}},
      {"look at the storage of that rank", Bottleneck::data_wait_of_rank, {.ranks = 2}, {}},
      {"look at the clock", Bottleneck::straggler, {.ranks = 2}, {}},
      {"use a number of data ranks", Bottleneck::uneven_batch, {.uneven_batch = true}, {}},
      {"ranks share cores",
       Bottleneck::no_core,
       {.ranks = 2, .host_ranks = 2, .host_cores = 1},
       {.ranks = 2, .host_ranks = 2, .host_cores = 2}},
      {"free these cores", Bottleneck::no_core, {.other_programs = 1.5}, {.other_programs = 0}},
      {"other processes may run",
       Bottleneck::no_core,
       {},
       {.ranks = 2, .host_ranks = 2, .host_cores = 1}},
      {"no other process used", Bottleneck::no_core, {.other_programs = 0}, {}},
      {"another process may run", Bottleneck::no_core_of_rank, {.ranks = 2}, {}},
      {"raise train.eval_every", Bottleneck::evaluation, {.eval_every = 10}, {.eval_every = 0}},
      {"limit train.eval_batches",
       Bottleneck::evaluation,
       {.eval_batches = 0},
       {.eval_batches = 1}},
      {"lower train.eval_batches",
       Bottleneck::evaluation,
       {.eval_batches = 2},
       {.eval_batches = 1}},
      {"look at the network", Bottleneck::late_messages, {.ranks = 2}, {.ranks = 2, .hosts = 1}},
      {"all ranks are on one host",
       Bottleneck::late_messages,
       {.ranks = 2, .hosts = 1},
       {.ranks = 2}},
      {"trireme plan shows how", Bottleneck::uneven_stages, {.ranks = 2, .pipeline = 2}, {}},
      {"set checkpoint.async: true", Bottleneck::checkpoint, {.checkpoint_async = false}, {}},
      {"raise checkpoint.every_steps", Bottleneck::checkpoint, {.checkpoint_every = 5}, {}},
      {"look at the storage and the memory", Bottleneck::checkpoint_of_rank, {.ranks = 2}, {}},
      {"lengthen lr_schedule.warmup_steps", Bottleneck::non_finite, {.warmup_steps = 5}, {}},
      {"set lr_schedule.warmup_steps", Bottleneck::non_finite, {}, {.warmup_steps = 5}},
      {"lower train.clip_norm", Bottleneck::non_finite, {.clip_norm = 1}, {.clip_norm = 0}},
      {"set train.clip_norm", Bottleneck::non_finite, {.clip_norm = 0}, {.clip_norm = 1}},
  };
  return all;
}

TEST(Advice, EachIsGivenOnlyToMatchingRuns) {
  std::size_t conditional = 0;
  for (const Advice& advice : all_advice()) {
    const auto fit = std::ranges::find_if(fits(), [&](const Fit& f) {
      return f.bottleneck == advice.bottleneck && advice.text.starts_with(f.text);
    });
    if (fit == fits().end()) {
      EXPECT_TRUE(advice.fits({})) << "no runs to try it on: " << advice.text;
      continue;
    }
    ++conditional;
    EXPECT_THAT(advice_for(advice.bottleneck, fit->given), HasSubstr(std::string(advice.text)));
    EXPECT_THAT(advice_for(advice.bottleneck, fit->not_given),
                Not(HasSubstr(std::string(advice.text))));
  }
  EXPECT_EQ(conditional, fits().size()) << "an advice is gone";
}

TEST(Advice, NeverAdvisesFewerRanksThanOneOrRaisesDisabledSettings) {
  const RunFacts plain{};
  for (const Advice& advice : all_advice()) {
    if (!advice.fits(plain)) continue;
    for (const char* const wrong :
         {"fewer ranks", "raise train.eval_every", "lower train.clip_norm", "that rank",
          "parallel.", "checkpoint."})
      EXPECT_THAT(std::string(advice.text), Not(HasSubstr(wrong)));
  }
}

RunSummary summary_of(const Times& times) {
  return {.totals = {.steps = 1, .times = times},
          .wall_seconds = 1e-3 * times[T::step],
          .hosts = {"a", "b"}};
}

constexpr RunFacts two_ranks{.ranks = 2, .data = 2, .host_ranks = 2, .host_cores = 2};

TEST(Verdict, SharesOfARunAddUpToItsTime) {
  RunSummary summary = summary_of({{T::step, 1000},
                                   {T::data_wait, 50},
                                   {T::exposed_comm, 100},
                                   {T::straggler, 70},
                                   {T::bubble, 30},
                                   {T::other, 20},
                                   {T::core_wait, 240},
                                   {T::core_straggler, 40}});
  summary.wall_seconds = 1.5;
  summary.evaluation_seconds = 0.25;

  const Times seconds = seconds_of(summary);

  EXPECT_DOUBLE_EQ(seconds.sum(time_use::of_run), summary.wall_seconds);
  EXPECT_NEAR(seconds[T::compute], 0.53, 1e-9) << "compute, with a core";
}

TEST(Verdict, AThreadOfMessagesWithoutACoreIsNotCountedTwice) {
  const RunSummary summary =
      summary_of({{T::step, 100}, {T::other, 60}, {T::core_wait, 75}, {T::other_core_wait, 50}});

  const Times seconds = seconds_of(summary);

  EXPECT_NEAR(seconds[T::compute], 0.015, 1e-9) << "compute";
  EXPECT_NEAR(seconds[T::core_wait], 0.075, 1e-9) << "core waits";
  EXPECT_NEAR(seconds[T::other], 0.01, 1e-9) << "other";
}

TEST(Verdict, CommunicationIsNamedForEveryPurpose) {
  const std::string text = bottleneck_text(summary_of({{T::step, 100}, {T::exposed_comm, 80}}),
                                           {.ranks = 2, .tensor = 2});

  EXPECT_THAT(text,
              AllOf(StartsWith("bottleneck: exposed communication (80.0 %)"),
                    HasSubstr("(80.0 %): lower parallel.tensor"), Not(HasSubstr("global_batch"))));
}

TEST(Verdict, AStragglerIsNamedAndCostsItsWholeExcess) {
  // Rank 1 takes 40 ms longer, so rank 0 waits 40 ms: 20 ms on average.
  RunSummary summary = summary_of({{T::step, 100}, {T::exposed_comm, 30}, {T::straggler, 20}});
  summary.slow.compute = {.rank = 1, .seconds = 0.04, .own_seconds = 0.08};

  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              AllOf(HasSubstr("bottleneck: straggler rank 1 on b (40.0 %)"),
                    Not(HasSubstr("global_batch"))));
}

TEST(Verdict, RanksThatHoldMoreMicroBatchesAreNoStragglers) {
  const RunSummary summary = summary_of({{T::step, 100}, {T::straggler, 40}});
  RunFacts uneven = two_ranks;
  uneven.uneven_batch = true;

  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              HasSubstr("waits for ranks that are slow in turn"));
  EXPECT_THAT(bottleneck_text(summary, uneven),
              AllOf(HasSubstr("bottleneck: waits for ranks that hold more micro-batches (40.0 %)"),
                    HasSubstr(": use a number of data ranks")));
}

TEST(Verdict, ARankWithoutACoreIsAStraggler) {
  RunSummary summary =
      summary_of({{T::step, 100}, {T::straggler, 30}, {T::core_wait, 60}, {T::core_straggler, 30}});
  summary.slow.core = {.rank = 1, .seconds = 0.06, .own_seconds = 0.06};

  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              AllOf(HasSubstr("CPU contention of rank 1 on b (60.0 %)"),
                    HasSubstr("another process may run on that rank's cores")));
}

TEST(Verdict, RanksThatShareCoresAreReported) {
  constexpr RunFacts on_one_core{.ranks = 2, .data = 2, .host_ranks = 2, .host_cores = 1};
  const RunSummary summary =
      summary_of({{T::step, 100}, {T::exposed_comm, 30}, {T::core_wait, 45}});

  EXPECT_THAT(bottleneck_text(summary, on_one_core),
              AllOf(HasSubstr("ranks that had it (75.0 %)"), HasSubstr(": ranks share cores")));
  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              HasSubstr(": other processes may run on these cores"));
  EXPECT_THAT(
      bottleneck_text(summary_of({{T::step, 100}, {T::exposed_comm, 80}, {T::core_wait, 1}}),
                      on_one_core),
      HasSubstr("bottleneck: exposed communication"))
      << "ranks that do not want for cores";
}

TEST(Verdict, WaitsOfTwoRanksNextToCoreWaitsCountAsCoreWaits) {
  const RunSummary summary =
      summary_of({{T::step, 100}, {T::exposed_comm, 40}, {T::core_wait, 30}});
  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              HasSubstr("CPU contention and, it seems, waits for ranks that had it (60.0 %)"));

  const RunSummary slow_link =
      summary_of({{T::step, 100}, {T::exposed_comm, 80}, {T::core_wait, 6}});
  EXPECT_THAT(bottleneck_text(slow_link, two_ranks),
              HasSubstr("bottleneck: exposed communication (80.0"));
}

TEST(Verdict, ReportsOtherProgramsUseIfKnown) {
  RunSummary summary = summary_of({{T::step, 100}, {T::core_wait, 45}});
  EXPECT_THAT(bottleneck_text(summary, {}), HasSubstr(": other processes may run on these cores"));

  summary.load = HostLoad{.host = "a", .cores = 2, .others = 1.8};
  EXPECT_THAT(bottleneck_text(summary, {}),
              AllOf(HasSubstr("other processes used 1.8 of the 2 cores of a"),
                    HasSubstr("; free these cores")));

  summary.load->others = 0;
  EXPECT_THAT(bottleneck_text(summary, {}), HasSubstr(": no other process used these cores"));
}

TEST(Verdict, ARunWhoseLossIsNotFiniteGetsNoneOnItsSpeed) {
  RunSummary summary = summary_of({{T::step, 100}, {T::exposed_comm, 80}});
  for (const double loss : {2.0, std::nan(""), 2.0, std::nan(""), std::nan("")})
    summary.divergence.add(++summary.totals.steps, loss);

  EXPECT_THAT(end_of_run_text(summary, two_ranks),
              AllOf(HasSubstr("the loss is not finite from step 5 on"),
                    HasSubstr("lower optimizer.learning_rate"), Not(HasSubstr("suggestion:"))));
}

TEST(Verdict, TheNetworkIsNotBlamedOnOneHost) {
  RunFacts one_host{.ranks = 2, .tensor = 2, .hosts = 1};
  EXPECT_THAT(advice_for(Bottleneck::late_messages, one_host), Not(HasSubstr("network")));
  EXPECT_THAT(advice_for(Bottleneck::exposed_comm, one_host), Not(HasSubstr("within a host")));

  one_host.hosts = 2;
  EXPECT_THAT(advice_for(Bottleneck::late_messages, one_host), HasSubstr("network"));
  EXPECT_THAT(advice_for(Bottleneck::exposed_comm, one_host), HasSubstr("within a host"));
}

TEST(Verdict, ASlowDiskOfOneRankIsThatRanks) {
  RunSummary summary = summary_of({{T::step, 100}, {T::data_wait, 60}});
  EXPECT_THAT(bottleneck_text(summary, two_ranks), HasSubstr("bottleneck: data wait (60.0 %)"));

  summary.slow.data = {.rank = 1, .seconds = 0.06, .own_seconds = 0.06};

  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              HasSubstr("bottleneck: data wait of rank 1 on b (60"));
}

TEST(Verdict, RepeatedDecodingAsksForALargerCacheNotForReaders) {
  RunSummary summary = summary_of({{T::step, 100}, {T::data_wait, 60}});
  summary.decoded_again = 0.2;
  EXPECT_THAT(bottleneck_text(summary, {}), HasSubstr("raise data.workers"));

  summary.decoded_again = 0.8;

  EXPECT_THAT(bottleneck_text(summary, {}),
              AllOf(HasSubstr("raise data.cache_megabytes"), Not(HasSubstr("raise data.workers"))));
}

TEST(Verdict, CheckpointsOfOneRankAreItsOwn) {
  RunSummary summary = summary_of({{T::step, 150},
                                   {T::straggler, 50},
                                   {T::between_steps, 50},
                                   {T::checkpoint, 50},
                                   {T::checkpoint_straggler, 50}});
  summary.wall_seconds = 0.2;
  EXPECT_THAT(bottleneck_text(summary, two_ranks), HasSubstr("bottleneck: checkpoints (50.0 %)"));

  summary.slow.checkpoint = {.rank = 1, .seconds = 0.1, .own_seconds = 0.1};

  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              HasSubstr("checkpoints of rank 1 on b (50.0 %)"));
}

TEST(Verdict, ARankWhoseMessagesLeaveLateIsNamed) {
  RunSummary summary = summary_of({{T::step, 100}, {T::exposed_comm, 60}});
  summary.slow.messages = {.rank = 0, .seconds = 0.05, .own_seconds = 0.05};

  EXPECT_THAT(bottleneck_text(summary, two_ranks),
              AllOf(HasSubstr("behind rank 0 on a, whose messages seem to leave late (50.0 %)"),
                    HasSubstr("(50.0 %): look at the network")));
}

TEST(Verdict, ReportsLatenessOfARankAndSpreadOfRanks) {
  RunSummary summary =
      summary_of({{T::step, 100}, {T::exposed_comm, 10}, {T::tensor_comm, 1}, {T::reduce_comm, 8}});
  summary.slow.compute = {.rank = 1, .seconds = 0.038, .own_seconds = 0.08};
  summary.ranks = {{{T::compute, 40}}, {{T::compute, 78}, {T::late, 38}, {T::late_steps, 1}}};

  EXPECT_THAT(
      end_of_run_text(summary, two_ranks),
      AllOf(HasSubstr("10.0 % (gradients 8.0 %, messages of tensor groups 1.0 %, norms 1.0 %)"),
            HasSubstr("\nranks: own work 0.0 to 0.1 s"),
            HasSubstr("rank 1 on b arrives 38 ms late at 100 % of steps: its own work "
                      "takes longer")));
  RunFacts cut = two_ranks;
  cut.cuts_samples = true;
  EXPECT_THAT(end_of_run_text(summary, cut),
              HasSubstr("gradients 8.0 %, halos and sums of shared samples 1.0 %, norms 1.0 %"));
}

TEST(Verdict, LateMessagesAreNamedIfUnexplained) {
  RunSummary summary = summary_of({{T::step, 100}, {T::exposed_comm, 60}});
  summary.ranks = {{{T::late, 38}, {T::late_steps, 1}}, {{T::late, 20}, {T::late_steps, 1}}};
  summary.slow.messages = {.rank = 0, .seconds = 0.05, .own_seconds = 0.05};
  EXPECT_THAT(end_of_run_text(summary, two_ranks), HasSubstr("rank 0 on a arrives"));

  summary.slow.compute = {.rank = 1, .seconds = 0.03, .own_seconds = 0.08};

  EXPECT_THAT(end_of_run_text(summary, two_ranks), HasSubstr("rank 1 on b arrives"));
}

// On a busy machine a rank that waits for its data also lacks a core more often than its peers.
TEST(Verdict, MeasuredWaitsPrecedeSlightlyLongerCoreWaits) {
  RunSummary summary = summary_of({{T::step, 100}, {T::data_wait, 10}, {T::core_wait, 20}});
  summary.ranks = {{{T::late, 30}, {T::late_steps, 1}}, {}};
  summary.slow.core = {.rank = 0, .seconds = 0.036, .own_seconds = 0.05};
  EXPECT_THAT(end_of_run_text(summary, two_ranks), HasSubstr("steps: it has no core"));

  summary.slow.data = {.rank = 0, .seconds = 0.033, .own_seconds = 0.033};

  EXPECT_THAT(end_of_run_text(summary, two_ranks), HasSubstr("steps: it waits for its data"));
}

TEST(Verdict, UnbalancedExpertsAreNamedNotTheRankThatHoldsThem) {
  RunSummary summary =
      summary_of({{T::step, 100}, {T::exposed_comm, 10}, {T::straggler, 20}, {T::expert_wait, 25}});
  summary.slow.compute = {.rank = 1, .seconds = summary.wall_seconds / 2};
  const RunFacts facts{.ranks = 2, .data = 2};

  const std::string text = end_of_run_text(summary, facts);

  EXPECT_THAT(text, AllOf(HasSubstr("experts unbalanced: about"), HasSubstr("(25.0 %)"),
                          HasSubstr("bottleneck: unbalanced experts (25.0 %)"),
                          HasSubstr("model.balance_loss"), Not(HasSubstr("not certain"))));
}

TEST(Verdict, UnbalancedExpertsNextToWaitsForCoresAreDoubtful) {
  const RunSummary summary =
      summary_of({{T::step, 100}, {T::exposed_comm, 30}, {T::core_wait, 20}, {T::expert_wait, 10}});

  EXPECT_THAT(end_of_run_text(summary, {.ranks = 2, .data = 2}),
              AllOf(HasSubstr("experts unbalanced"), HasSubstr("not certain")));
}

TEST(Verdict, WaitsForExpertsAreNoMoreThanAllWaits) {
  const RunSummary summary =
      summary_of({{T::step, 100}, {T::exposed_comm, 6}, {T::straggler, 2}, {T::expert_wait, 30}});

  EXPECT_THAT(end_of_run_text(summary, {.ranks = 2, .data = 2}), HasSubstr("(8.0 %)"));
}

TEST(Trials, RarerWorkGainsItsTime) {
  RunSummary summary = summary_of({{T::step, 10000}});
  summary.totals.steps = 100;
  summary.wall_seconds = 20;
  summary.evaluation_seconds = 10;

  // 10 evaluations become 3: behind steps 40, 80 and 100.
  EXPECT_EQ(try_line(summary, {.eval_every = 10}),
            "suggestion: train.eval_every=40 (predicted -35.0 % time)");
  EXPECT_EQ(try_line(summary, {.eval_every = 0}), "");
  RunSummary busy = summary;
  busy.totals.times[T::core_wait] = 200 * summary.wall_seconds;
  EXPECT_THAT(try_line(busy, {.eval_every = 10}), HasSubstr("CPU contention took 20 %"));
  EXPECT_EQ(try_line(summary, {.eval_every = 100}), "") << "the last one stays";
}

TEST(Trials, FollowFromTheRunsTimes) {
  RunSummary summary = summary_of({{T::step, 100},
                                   {T::forward, 20},
                                   {T::optimizer, 4},
                                   {T::exposed_comm, 16},
                                   {T::reduce_comm, 16}});

  EXPECT_EQ(try_line(summary, {.ranks = 2, .data = 2, .full_recompute = true, .global_batch = 8}),
            "suggestion: train.recompute=none (predicted -20.0 % time, if memory allows), "
            "train.global_batch=16 (predicted -10.0 % time a sample; changes the training)");
  summary.trials = {{.setting = "parallel.schedule=zero-bubble", .gain = 0.15},
                    {.setting = "train.micro_batch=1", .gain = 0.019}};
  EXPECT_EQ(try_line(summary, {.ranks = 2, .pipeline = 2, .global_batch = 8}),
            "suggestion: parallel.schedule=zero-bubble (predicted -15.0 % time)");
}

TEST(Trials, LessShardingSavesGathersOfPasses) {
  const RunSummary summary =
      summary_of({{T::step, 100}, {T::tensor_comm, 8}, {T::gather_comm, 40}});
  RunFacts facts{.ranks = 2, .data = 2, .zero = 3, .global_batch = 8, .micro_batch = 2};

  // Two micro-batches gather four times as much as one update, and 8 ms are after their passes.
  EXPECT_EQ(try_line(summary, facts),
            "suggestion: parallel.zero=1 (predicted -36.0 % time, if memory allows), "
            "train.micro_batch=4 (predicted -24.0 % time, if memory allows)");
  facts.zero = 1;
  EXPECT_EQ(try_line(summary, facts), "");
  facts = {.ranks = 4, .data = 2, .tensor = 2, .zero = 2, .global_batch = 8, .micro_batch = 2};
  EXPECT_EQ(try_line(summary, facts), "") << "waits of a tensor group have other reasons";
}

TEST(Verdict, AFinalEvaluationCannotBeMadeRarer) {
  RunSummary summary = summary_of({{T::step, 100}});
  summary.wall_seconds = 0.2;
  summary.evaluation_seconds = 0.1;

  EXPECT_THAT(bottleneck_text(summary, {.eval_every = 0, .eval_batches = 1}), EndsWith(" %)"));
  EXPECT_THAT(bottleneck_text(summary, {.eval_every = 5, .eval_batches = 1}),
              EndsWith(" %): raise train.eval_every"));
}

TEST(MachineLoad, ChildProcessesCountAsTheProcess) {
  const auto seconds_of_children = [] {
    rusage ended{};
    EXPECT_EQ(::getrusage(RUSAGE_CHILDREN, &ended), 0);
    return static_cast<double>(ended.ru_utime.tv_sec) +
           1e-6 * static_cast<double>(ended.ru_utime.tv_usec);
  };
  const double before = seconds_of_children();
  const auto start = std::chrono::steady_clock::now();
  const LoadMeter meter;
  ASSERT_EQ(std::system("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"), 0);

  const MachineLoad load = meter.read();

  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  EXPECT_GE(load.own * passed.count(), seconds_of_children() - before);
}

}  // namespace
}  // namespace trireme
