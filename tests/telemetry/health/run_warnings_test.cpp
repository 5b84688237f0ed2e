// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/health/run_warnings.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <random>

namespace trireme {
namespace {

using T = TimePart;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace std::chrono_literals;

class RunWarningsTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> kinds() const {
    std::vector<std::string> all;
    for (const RunWarning& warning : found_)
      all.push_back(warning.kind);
    return all;
  }
  // The next step; a second long.
  void step(StepMetrics metrics) {
    metrics.step = ++step_;
    metrics.time = now_ += 1s;
    warnings_.step(metrics);
  }
  [[nodiscard]] StepMetrics healthy() {
    std::normal_distribution<double> noise;
    return {.loss = 2 + 0.1 * noise(random_),
            .grad_norm = std::exp(0.4 * noise(random_)),
            .times = {{T::step, 1000}, {T::data_wait, 5}}};
  }
  [[nodiscard]] SavedCheckpoint save(double stall_ms, double seconds) {
    return {.step = step_,
            .path = "/runs/a/checkpoints/step_7",
            .bytes = 1000000000,
            .seconds = seconds,
            .stall_ms = stall_ms,
            .time = now_ += 600s};
  }

  std::mt19937 random_{7};
  std::int64_t step_ = 0;
  std::chrono::system_clock::time_point now_{std::chrono::hours(500000)};
  std::vector<RunWarning> found_;
  double decoded_again_ = 0;
  WarningSources sources_{.minutes = 10,
                          .hosts = {"n0", "n1"},
                          .path_of = [](std::uint64_t file) { return file == 7 ? "a.h5" : ""; },
                          .samples =
                              [](std::int64_t step) {
                                return std::vector<std::int64_t>{10 * step, 10 * step + 1};
                              },
                          .decoded_again = [this] { return decoded_again_; },
                          .warn = [this](const RunWarning& warning) { found_.push_back(warning); }};
  RunWarnings warnings_{sources_};
};

TEST_F(RunWarningsTest, AHealthyRunOfAnyNoiseHasNone) {
  // Norms that vary by 40 %, a loss that falls, levels off and is noisy, short waits.
  for (int i = 0; i < 20000; ++i) {
    StepMetrics metrics = healthy();
    metrics.loss += 8 * std::exp(-i / 500.0);
    metrics.grad_norm *= 1 + 5 * std::exp(-i / 50.0);
    step(metrics);
    if (i % 1000 == 0) warnings_.saved(save(20, 8 + i % 3));
  }

  EXPECT_THAT(kinds(), IsEmpty());
}

TEST_F(RunWarningsTest, SlowDataIsReportedOncePerTenMinutesWithRankAndFile) {
  StepMetrics slow = healthy();
  slow.times[T::data_wait] = 250;
  for (int i = 0; i < 500; ++i) {
    // Rank 0 waits too, in one step of five.
    slow.slow_read = i % 5 == 0 ? SlowRead{.rank = 0, .wait_ms = 600, .file = 6}
                                : SlowRead{.rank = 1, .wait_ms = 400};
    if (i % 2 == 0) slow.slow_read = {slow.slow_read->rank, slow.slow_read->wait_ms, 7, 2, 6e6};
    step(slow);
  }
  ASSERT_THAT(kinds(), ElementsAre("slow_data"));
  EXPECT_EQ(found_[0].step, 20);
  EXPECT_THAT(
      found_[0].text,
      AllOf(HasSubstr("steps 1 to 20 waited for data in 25 % of their time, 250.0 ms a step"),
            HasSubstr("(rank 1 on n1 waited longest, 320.0 ms a step, and read a.h5 longest: "
                      "3.0 MB/s a thread)")));

  for (int i = 0; i < 200; ++i)
    step(slow);
  EXPECT_THAT(kinds(), ElementsAre("slow_data", "slow_data"));
}

TEST_F(RunWarningsTest, SlowDataWhoseChunksAreDecodedAgainAsksForALargerCacheAndNotForReaders) {
  StepMetrics slow = healthy();
  slow.times[T::data_wait] = 250;
  decoded_again_ = 0.9;
  for (int i = 0; i < 20; ++i)
    step(slow);

  ASSERT_THAT(kinds(), ElementsAre("slow_data"));
  EXPECT_THAT(found_[0].text,
              AllOf(HasSubstr("raise data.cache_megabytes"), Not(HasSubstr("raise data.workers"))));
}

TEST_F(RunWarningsTest, SlowDataOfAFileThatIsNotKnownNamesTheRank) {
  StepMetrics slow = healthy();
  slow.times[T::data_wait] = 250;
  slow.slow_read = SlowRead{.rank = 2, .wait_ms = 300, .file = 5, .seconds = 1, .bytes = 1};
  for (int i = 0; i < 20; ++i)
    step(slow);

  ASSERT_THAT(kinds(), ElementsAre("slow_data"));
  EXPECT_THAT(found_[0].text, HasSubstr("(rank 2 waited longest, 300.0 ms a step); raise"));
}

TEST_F(RunWarningsTest, OneSlowBatchIsNone) {
  for (int i = 0; i < 100; ++i) {
    StepMetrics metrics = healthy();
    if (i == 50) metrics.times[T::data_wait] = 900;
    step(metrics);
  }
  EXPECT_THAT(kinds(), IsEmpty());
}

TEST_F(RunWarningsTest, AGradientNormSpikeIsReportedWithItsSamples) {
  for (int i = 0; i < 300; ++i)
    step(healthy());
  StepMetrics leap = healthy();
  leap.grad_norm = 80;
  step(leap);

  ASSERT_THAT(kinds(), ElementsAre("gradient_norm"));
  EXPECT_THAT(found_[0].text, AllOf(HasSubstr("jumped to 80"), HasSubstr("samples 3010 3011")));
}

TEST_F(RunWarningsTest, EarlyNormsAreNotJudged) {
  for (int i = 0; i < 100; ++i) {
    StepMetrics metrics = healthy();
    metrics.grad_norm = i == 60 ? 100 : 1;
    step(metrics);
  }
  EXPECT_THAT(kinds(), IsEmpty());
}

TEST_F(RunWarningsTest, ARisingLossIsReportedBeyondNoise) {
  for (int i = 0; i < 1000; ++i)
    step(healthy());
  EXPECT_THAT(kinds(), IsEmpty());
  for (int i = 0; i < 500; ++i) {
    StepMetrics metrics = healthy();
    metrics.loss += i * 0.002;
    step(metrics);
  }
  ASSERT_THAT(kinds(), ElementsAre("loss_rising"));
  EXPECT_THAT(found_[0].text, AllOf(HasSubstr("the loss rises"), HasSubstr("samples")));
}

TEST_F(RunWarningsTest, AGradientOfExactlyZeroIsReported) {
  StepMetrics dead = healthy();
  dead.grad_norm = 0;
  for (int i = 0; i < 10; ++i)
    step(dead);
  ASSERT_THAT(kinds(), ElementsAre("zero_gradient"));
  EXPECT_THAT(found_[0].text, HasSubstr("since step 1"));
}

TEST_F(RunWarningsTest, StepsThatAreNotFiniteAreLeftToTheGuard) {
  for (int i = 0; i < 300; ++i) {
    StepMetrics metrics = healthy();
    if (i % 2 == 0) metrics.grad_norm = metrics.loss = std::nan("");
    step(metrics);
  }
  EXPECT_THAT(kinds(), IsEmpty());
}

TEST_F(RunWarningsTest, ACheckpointThatBlocksTheRunIsReported) {
  step(healthy());
  warnings_.saved(save(10000, 20));
  EXPECT_THAT(kinds(), IsEmpty());  // 10 s of 600
  warnings_.saved(save(60000, 60));
  ASSERT_THAT(kinds(), ElementsAre("slow_checkpoint"));
  EXPECT_THAT(found_[0].text, AllOf(HasSubstr("/runs/a/checkpoints/step_7"), HasSubstr("16.7 MB/s"),
                                    HasSubstr("earlier ones at 50.0"), HasSubstr("stopped 60.0 s"),
                                    HasSubstr("10 % of the time since")));
}

TEST_F(RunWarningsTest, ACheckpointMuchSlowerThanTheOthersIsReported) {
  step(healthy());
  for (int i = 0; i < 4; ++i)
    warnings_.saved(save(10, 10));
  EXPECT_THAT(kinds(), IsEmpty());
  warnings_.saved(save(10, 100));
  EXPECT_THAT(kinds(), ElementsAre("slow_checkpoint"));
}

TEST_F(RunWarningsTest, ZeroMinutesMeansNone) {
  WarningSources sources = sources_;
  sources.minutes = 0;
  RunWarnings none(sources);
  for (int i = 0; i < 100; ++i)
    none.step({.step = i, .times = {{T::step, 1000}, {T::data_wait, 900}}});
  EXPECT_THAT(kinds(), IsEmpty());
}

TEST(RunWarningLine, NamesTheWarningAndItsReason) {
  EXPECT_EQ(format_json(RunWarning{.step = 7,
                                   .kind = "slow_data",
                                   .text = "a \"b\"",
                                   .time = std::chrono::system_clock::time_point(1s)}),
            "{\"step\":7,\"warning\":\"slow_data\",\"text\":\"a \\\"b\\\"\","
            "\"timestamp\":\"1970-01-01T00:00:01.000Z\"}\n");
}

// Of 48 tokens that visit 2 of 8 experts: up to 4 times the mean.
class ExpertWarnings : public RunWarningsTest {
 protected:
  void read(const std::vector<float>& counts) {
    StepMetrics metrics = healthy();
    metrics.items = 48;
    metrics.expert_loads = {load_of("blocks.0.mlp", std::vector<float>(8, 12), 2),
                            load_of("blocks.1.mlp", counts, 2)};
    step(metrics);
    step(healthy());  // not read
  }
  const std::vector<float> even_ = {10, 14, 12, 12, 8, 16, 12, 12};
  const std::vector<float> uneven_ = {24, 12, 10, 10, 10, 10, 10, 10};
  const std::vector<float> full_ = {36, 12, 8, 8, 8, 8, 8, 8};
  const std::vector<float> starved_ = {30, 30, 36, 0, 0, 0, 0, 0};
};

TEST_F(ExpertWarnings, ALoadThatStaysCollapsedIsNamedOnce) {
  for (int i = 0; i < 10; ++i)
    read(full_);

  ASSERT_THAT(kinds(), ElementsAre("unbalanced_experts"));
  EXPECT_EQ(found_[0].step, 5);
  EXPECT_THAT(found_[0].text, AllOf(HasSubstr("blocks.1.mlp"), HasSubstr("3.00 times the mean"),
                                    HasSubstr("0 of 8 experts"), HasSubstr("model.balance_loss")));
}

TEST_F(ExpertWarnings, MostExpertsWithoutATokenAreACollapse) {
  for (int i = 0; i < 3; ++i)
    read(starved_);

  ASSERT_THAT(kinds(), ElementsAre("unbalanced_experts"));
  EXPECT_THAT(found_[0].text, HasSubstr("5 of 8 experts"));
}

TEST_F(ExpertWarnings, AnUnevenLoadOrAShortCollapseIsNone) {
  for (int i = 0; i < 20; ++i)
    read(i % 3 == 0 ? uneven_ : full_);

  EXPECT_THAT(kinds(), IsEmpty());
}

TEST_F(ExpertWarnings, ACollapseAfterARecoveryIsNamedAgain) {
  for (const auto& counts : {full_, even_, full_})
    for (int i = 0; i < 3; ++i)
      read(counts);

  EXPECT_THAT(kinds(), ElementsAre("unbalanced_experts", "unbalanced_experts"));
}

TEST_F(ExpertWarnings, PassesInRoundsNameTheBuffer) {
  StepMetrics metrics = healthy();
  metrics.expert_traffic = ExpertTraffic{.passes = 50, .in_rounds = 6};

  for (int i = 0; i < 40; ++i)
    step(metrics);

  ASSERT_THAT(kinds(), ElementsAre("expert_rounds"));
  EXPECT_THAT(found_[0].text,
              HasSubstr("parallel.expert_capacity_factor too small in 12 % of the passes of "
                        "steps 1 to 20"));
}

TEST_F(RunWarningsTest, AGpuThatHeatSlowsIsNamedWithItsRankAndHost) {
  StepMetrics metrics = healthy();
  metrics.gpus = {{.known = true}, {.sm_mhz = 1230, .watts = 310, .celsius = 91, .known = true}};
  for (int i = 0; i < 40; ++i) {
    metrics.gpus[1].slowdowns = i % 3 == 0 ? 0 : 0x20;
    step(metrics);
  }
  EXPECT_THAT(kinds(), IsEmpty()) << "now and then is no reason to warn";
  metrics.gpus[1].slowdowns = 0x20;

  for (int i = 0; i < 40; ++i)
    step(metrics);

  ASSERT_THAT(kinds(), ElementsAre("slowed_gpu"));
  EXPECT_THAT(found_[0].text, HasSubstr("thermal slowdown on the GPU of rank 1 on n1 since step "));
  EXPECT_THAT(found_[0].text, HasSubstr(", 1230 MHz, 91 degrees Celsius, 310 W:"));
}

}  // namespace
}  // namespace trireme
