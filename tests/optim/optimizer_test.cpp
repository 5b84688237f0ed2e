// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <cmath>
#include <limits>

#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

using test::values_of;

class OptimizerTest : public test::CpuFixture {
 protected:
  OptimizerTest() {
    decayed_ = params_.declare(
        {.name = "w", .shape = {19}, .init = Init::normal(1), .decay = true, .matrix = true});
    plain_ = params_.declare({.name = "b", .shape = {5}, .init = Init::normal(1)});
    statistic_ = params_.declare(
        {.name = "s", .shape = {3}, .init = Init::constant(1), .kind = ParamKind::statistic});
    params_.allocate(*device_, {.training = true});
    params_.initialize(*compute_, 5);
    set_gradients(0);
  }
  void set_gradients(float value) {
    float* const gradients = params_.gradients().whole().as<float>();
    std::fill_n(gradients, params_.layout().elements(), 0.0F);
    for (const ParamId id : {decayed_, plain_, statistic_}) {
      std::fill_n(params_.gradient(id).as<float>(), params_.gradient(id).count(), value);
    }
  }

  ParamStore params_;
  ParamId decayed_, plain_, statistic_;
};

TEST_F(OptimizerTest, DecaysOnlyParametersThatSaySo) {
  const auto before_decayed = values_of<float>(params_.master(decayed_));
  const auto before_plain = values_of<float>(params_.master(plain_));
  Optimizer optimizer(*device_, params_, OptimizerConfig{.weight_decay = 0.5}, 0);

  optimizer.prepare(0, 0.1);
  optimizer.step(*compute_, 0);

  EXPECT_EQ(values_of<float>(params_.master(plain_)), before_plain);
  const auto after = values_of<float>(params_.master(decayed_));
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], before_decayed[i] * 0.95F, 1e-6F);
}

TEST_F(OptimizerTest, FirstAdamWStepMovesEveryParameterByTheLearningRate) {
  set_gradients(3);
  const auto before = values_of<float>(params_.master(plain_));
  Optimizer optimizer(*device_, params_, OptimizerConfig{.weight_decay = 0}, 0);

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, 0);

  const auto after = values_of<float>(params_.master(plain_));
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], before[i] - 0.01F, 1e-6F);
}

// A rate of its own changes the step and not the decay.
TEST_F(OptimizerTest, AdamWAndLionMoveAParameterAtItsOwnRate) {
  for (const bool lion : {false, true}) {
    ParamStore params;
    const auto declare = [&](const char* name, float rate) {
      return params.declare({.name = name,
                             .shape = {4},
                             .init = Init::constant(1).at_rate(rate),
                             .decay = true,
                             .matrix = true});
    };
    const ParamId whole = declare("whole", 1), half = declare("half", 0.5F);
    params.allocate(*device_, {.training = true});
    params.initialize(*compute_, 5);
    const Tensor gradients = params.gradients().whole();
    std::fill_n(gradients.as<float>(), gradients.count(), 3.0F);
    const OptimizerConfig options{.name = lion ? OptimizerKind::lion : OptimizerKind::adamw,
                                  .weight_decay = 0.5};
    Optimizer optimizer(*device_, params, options, 0);

    optimizer.prepare(0, 0.01);
    optimizer.step(*compute_, 0);

    EXPECT_NEAR(values_of<float>(params.master(whole))[3], 1 - 0.01 * (1 + 0.5), 1e-6);
    EXPECT_NEAR(values_of<float>(params.master(half))[3], 1 - 0.01 * (0.5 + 0.5), 1e-6);
  }
}

TEST_F(OptimizerTest, ReportsTheNormOfWeightsWithoutStatistics) {
  set_gradients(2);
  Optimizer optimizer(*device_, params_, OptimizerConfig{.weight_decay = 0}, 0);

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, 0);

  EXPECT_FLOAT_EQ(optimizer.gradient_norm().as<float>()[0], 2 * std::sqrt(24.0F));
}

TEST_F(OptimizerTest, ClipsTheWholeGradientToTheNorm) {
  set_gradients(2);
  const auto before = values_of<float>(params_.master(plain_));
  Optimizer optimizer(*device_, params_,
                      {.name = OptimizerKind::sgd, .weight_decay = 0, .momentum = 0}, 1.0F);

  optimizer.prepare(0, 1.0);
  optimizer.step(*compute_, 0);

  const auto after = values_of<float>(params_.master(plain_));
  const float moved = 1.0F / std::sqrt(24.0F);
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], before[i] - moved, 1e-6F);
}

TEST_F(OptimizerTest, MovesRunningStatisticsByTheirOwnDecay) {
  set_gradients(11);
  Optimizer optimizer(*device_, params_, OptimizerConfig{.weight_decay = 0}, 0);

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, 0);

  for (const float value : values_of<float>(params_.master(statistic_)))
    EXPECT_FLOAT_EQ(value, 0.9F + 0.1F * 11);
}

TEST_F(OptimizerTest, LeavesEverythingUntouchedWhenAGradientIsNotFinite) {
  set_gradients(1);
  params_.gradient(plain_).as<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  params_.gradient(statistic_).as<float>()[0] = std::numeric_limits<float>::infinity();
  const auto before = values_of<float>(params_.masters().whole());
  Optimizer optimizer(*device_, params_, OptimizerConfig{.weight_decay = 0}, 1.0F);

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, 0);
  EXPECT_EQ(values_of<float>(params_.masters().whole()), before);
  EXPECT_FALSE(std::isfinite(optimizer.gradient_norm().as<float>()[0]));

  set_gradients(1);
  optimizer.prepare(1, 0.01);
  optimizer.step(*compute_, 1);
  for (const float value : values_of<float>(params_.masters().whole()))
    EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace trireme
