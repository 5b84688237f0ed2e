// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

LrSchedule schedule(LrDecay kind) {
  return {.kind = kind,
          .peak = 2.0,
          .steps = 101,
          .warmup_steps = 10,
          .minimum_ratio = 0.1,
          .decay_fraction = 0.2};
}

TEST(LrSchedule, WarmsUpLinearlyFromTheFirstStepWithoutAZeroStep) {
  for (const auto kind : {LrDecay::constant, LrDecay::linear, LrDecay::cosine, LrDecay::polynomial,
                          LrDecay::exponential, LrDecay::inverse_sqrt, LrDecay::multistep}) {
    EXPECT_DOUBLE_EQ(schedule(kind).at(0), 0.2);
    EXPECT_DOUBLE_EQ(schedule(kind).at(4), 1.0);
    EXPECT_DOUBLE_EQ(schedule(kind).at(9), 2.0);
  }
}

TEST(LrSchedule, EndsAtTheMinimumOnTheLastStep) {
  EXPECT_DOUBLE_EQ(schedule(LrDecay::cosine).at(100), 0.2);
  EXPECT_DOUBLE_EQ(schedule(LrDecay::linear).at(100), 0.2);
  EXPECT_DOUBLE_EQ(schedule(LrDecay::wsd).at(100), 0.2);
  EXPECT_DOUBLE_EQ(schedule(LrDecay::constant).at(100), 2.0);
}

TEST(LrSchedule, InverseSqrtFallsFromWarmUpOnAndNotBelowItsMinimum) {
  LrSchedule falling = schedule(LrDecay::inverse_sqrt);
  EXPECT_DOUBLE_EQ(falling.at(9), 2.0);
  EXPECT_DOUBLE_EQ(falling.at(39), 1.0);
  EXPECT_DOUBLE_EQ(falling.at(89), 2.0 / 3);
  falling.minimum_ratio = 0.5;
  EXPECT_DOUBLE_EQ(falling.at(89), 1.0);
  falling.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(falling.at(0), 2.0);
}

TEST(LrSchedule, CosineIsHalfWayDownInTheMiddle) {
  EXPECT_NEAR(schedule(LrDecay::cosine).at(55), 2.0 * (0.1 + 0.9 * 0.5), 1e-12);
}

TEST(LrSchedule, WsdStaysAtThePeakUntilItsLastPart) {
  const LrSchedule wsd = schedule(LrDecay::wsd);

  EXPECT_DOUBLE_EQ(wsd.at(50), 2.0);
  EXPECT_DOUBLE_EQ(wsd.at(81), 2.0);
  EXPECT_LT(wsd.at(82), 2.0);
}

TEST(LrSchedule, WsdDecaysInItsLastStepHoweverShortItsDecayIs) {
  for (const std::int64_t warmup : {0, 10, 100}) {
    for (const double fraction : {1e-6, 0.01}) {
      LrSchedule wsd = schedule(LrDecay::wsd);
      wsd.warmup_steps = warmup;
      wsd.decay_fraction = fraction;

      EXPECT_DOUBLE_EQ(wsd.at(99), 2.0);
      EXPECT_DOUBLE_EQ(wsd.at(100), 0.2);
    }
  }
}

TEST(LrSchedule, PolynomialRaisesWhatIsLeftToItsPower) {
  LrSchedule polynomial = schedule(LrDecay::polynomial);
  EXPECT_DOUBLE_EQ(polynomial.at(55), schedule(LrDecay::linear).at(55));
  polynomial.power = 0.9;

  EXPECT_DOUBLE_EQ(polynomial.at(10), 2.0);
  EXPECT_DOUBLE_EQ(polynomial.at(55), 2.0 * (0.1 + 0.9 * std::pow(0.5, 0.9)));
  EXPECT_DOUBLE_EQ(polynomial.at(100), 0.2);
}

TEST(LrSchedule, ExponentialFallsByTheSameFactorInEachStep) {
  const LrSchedule exponential = schedule(LrDecay::exponential);

  EXPECT_DOUBLE_EQ(exponential.at(10), 2.0);
  EXPECT_NEAR(exponential.at(55), 2.0 * std::sqrt(0.1), 1e-12);
  EXPECT_NEAR(exponential.at(31) / exponential.at(30), exponential.at(91) / exponential.at(90),
              1e-12);
  EXPECT_DOUBLE_EQ(exponential.at(100), 0.2);
}

TEST(LrSchedule, EachFactorOfMultistepReplacesTheOneBefore) {
  LrSchedule multistep = schedule(LrDecay::multistep);
  multistep.factors = {{32, 0.25}, {64, 0.125}};

  EXPECT_DOUBLE_EQ(multistep.at(4), 1.0);
  EXPECT_DOUBLE_EQ(multistep.at(31), 2.0);
  EXPECT_DOUBLE_EQ(multistep.at(32), 0.5);
  EXPECT_DOUBLE_EQ(multistep.at(63), 0.5);
  EXPECT_DOUBLE_EQ(multistep.at(64), 0.25);
  EXPECT_DOUBLE_EQ(multistep.at(100), 0.25);
}

TEST(LrSchedule, NeverLeavesItsRangeForDegenerateLengths) {
  for (const std::int64_t steps : {1, 2, 3}) {
    for (const std::int64_t warmup : {0, 1}) {
      for (const auto kind : {LrDecay::constant, LrDecay::linear, LrDecay::cosine, LrDecay::wsd,
                              LrDecay::polynomial, LrDecay::exponential, LrDecay::multistep}) {
        const LrSchedule degenerate{
            .kind = kind, .peak = 1.0, .steps = steps, .warmup_steps = warmup};
        for (std::int64_t step = 0; step < steps; ++step) {
          EXPECT_GE(degenerate.at(step), 0.0);
          EXPECT_LE(degenerate.at(step), 1.0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme
