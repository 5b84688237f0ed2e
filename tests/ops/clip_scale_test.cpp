// SPDX-License-Identifier: Apache-2.0
// The factor of a step's gradients: clipping, loss scale, number of counted targets.
#include <limits>

#include "runtime/ops/update/optimizer_update.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using ops::StepScalars;

GuardedTensor scalars_of(double scale) {
  return {DType::f32, {StepScalars::count}, {1, 1, 1, scale}};
}

TEST(ClipScale, ScalesOnlyNormsAboveTheLimit) {
  const GuardedTensor scalars = scalars_of(1), norm(DType::f32, {1});

  ops::clip_scale(stream(), scalars, norm, GuardedTensor(DType::f64, {1}, {16.0}), 1.0F);
  EXPECT_EQ(norm.get()[0], 4.0);
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 0.25);

  ops::clip_scale(stream(), scalars, norm, GuardedTensor(DType::f64, {1}, {0.25}), 1.0F);
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 1.0);

  ops::clip_scale(stream(), scalars, norm, GuardedTensor(DType::f64, {1}, {16.0}), 0.0F);
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 1.0);

  ops::clip_scale(stream(), scalars, norm, GuardedTensor(DType::f64, {1}, {std::nan("")}), 1.0F);
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 0.0);
  EXPECT_TRUE(std::isnan(norm.get()[0]));
}

TEST(ClipScale, TakesTheLossScaleOff) {
  const GuardedTensor scalars = scalars_of(1), norm(DType::f32, {1});
  const GuardedTensor loss_scale(DType::f32, {1}, {8.0});

  ops::clip_scale(stream(), scalars, norm, GuardedTensor(DType::f64, {1}, {1024.0}), 1.0F,
                  {.loss_scale = loss_scale});
  EXPECT_EQ(norm.get()[0], 4.0);
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 1.0 / 32);

  ops::clip_scale(stream(), scalars, norm, GuardedTensor(DType::f64, {1}, {1024.0}), 0.0F,
                  {.loss_scale = loss_scale});
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 1.0 / 8);

  ops::clip_scale(stream(), scalars, norm,
                  GuardedTensor(DType::f64, {1}, {std::numeric_limits<double>::infinity()}), 1.0F,
                  {.loss_scale = loss_scale});
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 0.0);
}

TEST(ClipScale, DividesByTheTargetsThatCount) {
  const GuardedTensor scalars = scalars_of(1), norm(DType::f32, {1});
  const GuardedTensor loss_scale(DType::f32, {1}, {8.0}), total(DType::f64, {1}, {1024.0});
  const GuardedTensor quarter(DType::f64, {2, 7}, {5, 1, 1, 0, 3, 0, 0, 7, 0, 0, 0, 1, 0, 0});
  const GuardedTensor none(DType::f64, {1, 7}, {0, 0, 0, 0, 0, 0, 0});

  ops::clip_scale(stream(), scalars, norm, total, 0.0F,
                  {.loss_scale = loss_scale, .sums = quarter, .targets = 16});
  EXPECT_EQ(norm.get()[0], 16.0);
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 1.0 / 2);

  ops::clip_scale(stream(), scalars, norm, total, 0.0F, {.sums = none, .targets = 16});
  EXPECT_EQ(scalars.get()[StepScalars::gradient_scale], 16.0)
      << "finite: there is nothing to divide";
}

TEST(LossScale, FallsOnOverflowAndGrowsAfterGoodSteps) {
  const ops::LossScaleOptions options{.initial = 8, .growth_interval = 3, .minimum = 2};
  const GuardedTensor state(DType::f32, {ops::LossScaleState::count}, {8.0, 0.0, 0.0});
  const GuardedTensor good = scalars_of(0.5), bad = scalars_of(0);
  const auto after = [&](const GuardedTensor& scalars) {
    ops::update_loss_scale(stream(), state, scalars, options);
    return state.get();
  };
  using Expected = std::vector<double>;  // scale, good steps, skipped steps

  EXPECT_EQ(after(good), (Expected{8, 1, 0}));
  EXPECT_EQ(after(good), (Expected{8, 2, 0}));
  EXPECT_EQ(after(good), (Expected{16, 0, 0}));
  EXPECT_EQ(after(good), (Expected{16, 1, 0}));
  EXPECT_EQ(after(bad), (Expected{8, 0, 1}));
  EXPECT_EQ(after(bad), (Expected{4, 0, 2}));
  EXPECT_EQ(after(bad), (Expected{2, 0, 3}));
  EXPECT_EQ(after(bad), (Expected{2, 0, 4})) << "never below the minimum";
}

TEST(LossScale, StopsGrowingWhereTheGradientOfTheLossWouldOverflow) {
  const ops::LossScaleOptions options{.growth_interval = 1, .factor = 4};
  const double most = ops::LossScaleOptions::maximum;
  const GuardedTensor state(DType::f32, {ops::LossScaleState::count}, {most / 2, 0.0, 0.0});

  ops::update_loss_scale(stream(), state, scalars_of(1), options);

  EXPECT_EQ(state.get()[ops::LossScaleState::scale], most);
}

}  // namespace
}  // namespace trireme
