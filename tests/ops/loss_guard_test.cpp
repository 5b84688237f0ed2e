// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/loss_guard.h"
#include "runtime/ops/update/loss_sums.h"

#include <limits>

#include "runtime/ops/update/optimizer_update.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using ops::LossGuardState;
using ops::LossVerdict;

// Consecutive steps of one micro-batch each.
class LossGuardTest : public ::testing::Test {
 protected:
  explicit LossGuardTest(const ops::LossGuardOptions& options = {.zscore = 4, .window = 8})
      : options_(options) {}

  // The update's gradient scale after a step with this loss.
  double step(double loss, double targets = 1) {
    const GuardedTensor scalars(DType::f32, {ops::StepScalars::count}, {1e-3, 1, 1, 0.5});
    const GuardedTensor sums(DType::f64, {1, ops::LossSums::count}, {loss, 1, 0, 0, targets, 0, 0});
    ops::guard_loss(stream(), scalars, state_, sums, options_);
    return scalars.get()[ops::StepScalars::gradient_scale];
  }
  // Losses of 3.01 and 2.99 in turn.
  void settle(int steps) {
    for (int i = 0; i < steps; ++i)
      EXPECT_EQ(step(3.0 + (i % 2 == 0 ? 0.01 : -0.01)), 0.5) << "step " << i;
  }
  [[nodiscard]] double state(LossGuardState::Index index) const {
    return state_.get()[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] LossVerdict verdict() const {
    return static_cast<LossVerdict>(static_cast<int>(state(LossGuardState::verdict)));
  }

  ops::LossGuardOptions options_;
  const GuardedTensor state_{
      DType::f64, {LossGuardState::count}, std::vector<double>(LossGuardState::count)};
};

TEST_F(LossGuardTest, SkipsOnlyASpike) {
  settle(20);

  EXPECT_EQ(step(3.5), 0.0);
  EXPECT_EQ(verdict(), LossVerdict::spike);
  EXPECT_EQ(state(LossGuardState::spikes), 1);
  EXPECT_GT(state(LossGuardState::zscore), 30);
  EXPECT_EQ(step(3.02), 0.5);
  EXPECT_EQ(verdict(), LossVerdict::accepted);
  EXPECT_EQ(step(2.0), 0.5) << "a loss that falls is welcome";
  EXPECT_EQ(state(LossGuardState::spikes), 1);
}

TEST_F(LossGuardTest, KeepsMeanAndVarianceOfThePast) {
  for (const double loss : {1.0, 2.0, 6.0})
    EXPECT_EQ(step(loss), 0.5);

  EXPECT_DOUBLE_EQ(state(LossGuardState::mean), 3.0);
  EXPECT_DOUBLE_EQ(state(LossGuardState::variance), 14.0 / 3);
  EXPECT_EQ(state(LossGuardState::seen), 3);
}

TEST_F(LossGuardTest, SkipsAStepWithoutTargetsWhoseZeroLossTeachesNothing) {
  settle(20);
  const double mean = state(LossGuardState::mean), seen = state(LossGuardState::seen);

  EXPECT_EQ(step(0, 0), 0.0);
  EXPECT_EQ(verdict(), LossVerdict::no_targets);
  EXPECT_EQ(state(LossGuardState::mean), mean);
  EXPECT_EQ(state(LossGuardState::seen), seen);
  EXPECT_EQ(step(std::numeric_limits<double>::quiet_NaN(), 0), 0.0);
  EXPECT_EQ(verdict(), LossVerdict::non_finite);
  EXPECT_EQ(step(3.01), 0.5);
}

TEST_F(LossGuardTest, JudgesNothingBeforeTheWindowIsFull) {
  settle(7);

  EXPECT_EQ(step(30), 0.5);
}

TEST_F(LossGuardTest, AcceptsANewLevelAfterSomeSteps) {
  settle(20);

  int skipped = 0;
  while (step(3.5) == 0.0 && skipped < 100)
    ++skipped;

  EXPECT_GE(skipped, 1);
  EXPECT_LT(skipped, 20);
}

TEST_F(LossGuardTest, SkipsNonFiniteLossesAndExcludesThem) {
  settle(10);
  const auto before = state_.get();
  for (const double loss :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(step(loss), 0.0);
    EXPECT_EQ(verdict(), LossVerdict::non_finite);
    for (const auto index : {LossGuardState::mean, LossGuardState::variance, LossGuardState::seen,
                             LossGuardState::spikes})
      EXPECT_EQ(state(index), before[static_cast<std::size_t>(index)]);
  }
}

class NoSpikeRule : public LossGuardTest {
 protected:
  NoSpikeRule() : LossGuardTest({.zscore = 0, .window = 8}) {}
};

TEST_F(NoSpikeRule, SkipsOnlyNonFiniteLosses) {
  settle(20);

  EXPECT_EQ(step(1e6), 0.5);
  EXPECT_EQ(step(std::numeric_limits<double>::infinity()), 0.0);
}

TEST(LossGuardSum, FollowsTheOrderOfTheGlobalBatch) {
  // In their order the large ones cancel before the small ones are added.
  const std::vector<double> in_order = {1e17, -1e17, 1e17, -1e17, 1, 2, 3, 4};
  struct Order {
    std::vector<std::size_t> held;  // rank after rank
    std::int64_t turns, of_rank, context = 1, blocks = 1;
  };
  for (const auto& [held, turns, of_rank, context, blocks] :
       {Order{{0, 1, 2, 3, 4, 5, 6, 7}, 1, 4}, Order{{0, 2, 4, 6, 1, 3, 5, 7}, 2, 4},
        Order{{0, 2, 1, 3, 4, 6, 5, 7}, 2, 2}, Order{{0, 4, 1, 5, 2, 6, 3, 7}, 4, 2},
        // Two micro-batches of a rank in four blocks, on one rank, two and four.
        Order{{0, 1, 2, 3, 4, 5, 6, 7}, 1, 2, 1, 4}, Order{{0, 1, 4, 5, 2, 3, 6, 7}, 1, 2, 2, 2},
        Order{{0, 4, 1, 5, 2, 6, 3, 7}, 1, 2, 4, 1},
        // Four of two sample ranks in turn, in two blocks.
        Order{{0, 4, 1, 5, 2, 6, 3, 7}, 2, 2, 2, 1}}) {
    std::vector<double> values;
    for (const std::size_t k : held) {
      const double counted = k < 4 ? 1 : 0;  // the others have only ignored targets
      values.insert(values.end(), {in_order[k], 0, 0, 0, counted, 0, 0});
    }
    const GuardedTensor sums(DType::f64, {8, ops::LossSums::count}, values);
    const GuardedTensor scalars(DType::f32, {ops::StepScalars::count}, {0, 1, 1, 1});
    const GuardedTensor state(DType::f64, {LossGuardState::count},
                              std::vector<double>(LossGuardState::count));

    ops::guard_loss(stream(), scalars, state, sums, {.order = {turns, of_rank, context, blocks}});

    EXPECT_EQ(state.get()[LossGuardState::mean], 10.0 / 4) << turns << " of " << of_rank;
  }
}

}  // namespace
}  // namespace trireme
