// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <cmath>
#include <limits>

#include "runtime/optim/gradient_scale.h"
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

TEST_F(OptimizerTest, DecaysOnlyMarkedParameters) {
  const auto before_decayed = values_of<float>(params_.master(decayed_));
  const auto before_plain = values_of<float>(params_.master(plain_));
  Optimizer optimizer(*device_, params_, {.config = {.weight_decay = 0.5}});

  optimizer.prepare(0, 0.1);
  optimizer.step(*compute_, {});

  EXPECT_EQ(values_of<float>(params_.master(plain_)), before_plain);
  const auto after = values_of<float>(params_.master(decayed_));
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], before_decayed[i] * 0.95F, 1e-6F);
}

TEST_F(OptimizerTest, FirstAdamWStepMovesEveryParameterByTheLearningRate) {
  set_gradients(3);
  const auto before = values_of<float>(params_.master(plain_));
  Optimizer optimizer(*device_, params_, {.config = {.weight_decay = 0}});

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, {});

  const auto after = values_of<float>(params_.master(plain_));
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], before[i] - 0.01F, 1e-6F);
}

// A parameter's rate changes the step but not the decay.
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
    Optimizer optimizer(*device_, params, {.config = options});

    optimizer.prepare(0, 0.01);
    optimizer.step(*compute_, {});

    EXPECT_NEAR(values_of<float>(params.master(whole))[3], 1 - 0.01 * (1 + 0.5), 1e-6);
    EXPECT_NEAR(values_of<float>(params.master(half))[3], 1 - 0.01 * (0.5 + 0.5), 1e-6);
  }
}

// Shares that are powers of two: the same bits as an optimizer with these values.
TEST_F(OptimizerTest, AGroupMovesAsUnderItsOwnRateAndDecay) {
  for (const OptimizerTraits& traits : optimizer_table) {
    if (!traits.groups) continue;
    const auto moved = [&](float rate, float decay, double learning_rate, double weight_decay) {
      ParamStore params;
      const ParamId id = params.declare({.name = "w",
                                         .shape = {3, 4},
                                         .init = Init::constant(0.5F),
                                         .decay = true,
                                         .matrix = true,
                                         .hidden = true,
                                         .rate = rate,
                                         .decay_share = decay});
      params.allocate(*device_, {.training = true});
      params.initialize(*compute_, 5);
      const Tensor gradients = params.gradients().whole();
      for (std::int64_t i = 0; i < gradients.count(); ++i)
        gradients.as<float>()[i] = i < 12 ? static_cast<float>(i % 5) - 1.5F : 0;
      Optimizer optimizer(*device_, params,
                          {.config = {.name = traits.kind, .weight_decay = weight_decay}});
      optimizer.prepare(0, learning_rate);
      optimizer.step(*compute_, {});
      return values_of<float>(params.master(id));
    };
    EXPECT_EQ(moved(0.25F, 2, 0.5, 0.125), moved(1, 1, 0.125, 0.25)) << traits.name;
    EXPECT_NE(moved(0.25F, 2, 0.5, 0.125), moved(1, 1, 0.5, 0.125)) << traits.name;
  }
}

// Values of Hugging Face's Adafactor (relative_step=False, weight_decay=0.1) after three steps.
TEST_F(OptimizerTest, AdafactorFollowsTheReference) {
  struct Case {
    bool scale_parameter;
    std::vector<float> matrix, vector;
  };
  const std::vector<Case> cases{
      {false,
       {0.9953867, 0.4472051, -0.4659296, -1.017608, -0.6793957, 0.3222008, 0.9962757, 0.7899485,
        -0.08409466, -0.8925564, -0.8671981, -0.04440325},
       {0.003679037, -0.04342745, -0.04789527, -0.04990641, -0.05229521}},
      {true,
       {0.9963861, 0.4760388, -0.4503396, -1.008706, -0.6711167, 0.3101042, 0.9847702, 0.7785144,
        -0.103143, -0.8980616, -0.8582189, -0.02925189},
       {0.0002031763, 6.423656e-05, -0.0001313132, -0.0002479682, -0.0001831293}}};
  for (const Case& expected : cases) {
    ParamStore params;
    const ParamId matrix = params.declare({.name = "w", .shape = {3, 4}, .decay = true}),
                  vector = params.declare({.name = "b", .shape = {5}, .decay = true});
    params.allocate(*device_, {.training = true});
    params.initialize(*compute_, 5);
    const auto fill = [](const Tensor& to, auto value) {
      for (std::int64_t i = 0; i < to.count(); ++i)
        to.as<float>()[i] = static_cast<float>(value(i));
    };
    fill(params.gradients().whole(), [](std::int64_t) { return 0; });  // padding too
    fill(params.master(matrix), [](std::int64_t i) { return std::cos(i); });
    fill(params.master(vector), [](std::int64_t i) { return 2e-4 * std::cos(i); });
    Optimizer optimizer(*device_, params,
                        {.config = {.name = OptimizerKind::adafactor,
                                    .weight_decay = 0.1,
                                    .scale_parameter = expected.scale_parameter}});
    for (int step = 0; step < 3; ++step) {
      const auto wave = [&](std::int64_t i) { return std::sin(7 * i + 3 * step); };
      fill(params.gradient(matrix),
           [&](std::int64_t i) { return static_cast<double>(1 + i / 4) * wave(i); });
      fill(params.gradient(vector), [&](std::int64_t i) { return 1e-3 * wave(i); });
      optimizer.prepare(step, 0.05);
      optimizer.step(*compute_, {.number = step});
    }
    const auto expect_near = [](const std::vector<float>& values, const std::vector<float>& good) {
      ASSERT_EQ(values.size(), good.size());
      for (std::size_t i = 0; i < good.size(); ++i)
        EXPECT_NEAR(values[i], good[i], 2e-6F * std::abs(good[i]) + 2e-8F) << i;
    };
    expect_near(values_of<float>(params.master(matrix)), expected.matrix);
    expect_near(values_of<float>(params.master(vector)), expected.vector);
    EXPECT_EQ(optimizer.state_bytes(), (4 + 4 + 4 + 8) * sizeof(float));  // each to 4 values
  }
}

// Parameters of these tensors in a row, or of one each, after three steps.
std::vector<float> trained(Device& device, Stream& stream, OptimizerKind kind,
                           const std::vector<ParamSpec>& specs) {
  ParamStore params;
  for (const ParamSpec& spec : specs)
    params.declare(spec);
  params.allocate(device, {.training = true});
  params.initialize(stream, 5);
  const auto fill = [&](const auto& tensor_of, auto value) {
    std::int64_t at = 0;
    for (int id = 0; id < static_cast<int>(specs.size()); ++id)
      for (float& each : std::span(tensor_of(ParamId{id}).template as<float>(),
                                   static_cast<std::size_t>(specs[id].shape.count())))
        each = static_cast<float>(value(at++));
  };
  fill([&](ParamId id) { return params.master(id); },
       [](auto i) { return (1 + 1e-2 * static_cast<double>(i)) * std::cos(i); });
  std::fill_n(params.gradients().whole().as<float>(), params.layout().elements(), 0.0F);  // padding
  Optimizer optimizer(device, params,
                      {.config = {.name = kind, .weight_decay = 0.1}, .exact = true});
  for (int step = 0; step < 3; ++step) {
    fill([&](ParamId id) { return params.gradient(id); },
         [&](auto i) { return std::exp(3 * std::sin(i / 16)) * std::sin(7 * i + 3 * step); });
    optimizer.prepare(step, 0.05);
    optimizer.step(stream, {.number = step});
  }
  std::vector<float> values;
  for (int id = 0; id < static_cast<int>(specs.size()); ++id)
    std::ranges::move(values_of<float>(params.master({id})), std::back_inserter(values));
  return values;
}

TEST_F(OptimizerTest, TakesEachTensorOfAFusedProjectionAsItsOwn) {
  const ParamSpec qkv{.name = "qkv",
                      .shape = {40, 3},
                      .decay = true,
                      .shard_axis = 0,
                      .shard_parts = 3,
                      .shard_lead = 3};
  ParamSpec bias = qkv, experts = qkv, of_experts = qkv, whole = qkv;
  bias.shape = {40};
  experts.shape = {2, 16, 3};
  of_experts.shape = {2, 16};
  for (ParamSpec* const each : {&experts, &of_experts}) {
    each->expert = true;
    each->shard_parts = each->shard_lead = 1;
    each->expert_parts = 2;
  }
  whole.fused = true;
  const std::vector<std::pair<ParamSpec, std::vector<Shape>>> cases{
      {qkv, {{24, 3}, {8, 3}, {8, 3}}},
      {bias, {{24}, {8}, {8}}},
      {experts, {{8, 3}, {8, 3}, {8, 3}, {8, 3}}},
      {of_experts, {{8}, {8}, {8}, {8}}},
      {whole, {{40, 3}}}};
  for (const OptimizerTraits& traits : optimizer_table) {
    if (!traits.trust_ratios) continue;
    for (const auto& [spec, shapes] : cases) {
      SCOPED_TRACE(fmt::format("{} {}", traits.name, spec.shape.to_string()));
      std::vector<ParamSpec> apart;
      for (const Shape& shape : shapes)
        apart.push_back({.name = fmt::format("w{}", apart.size()), .shape = shape, .decay = true});

      EXPECT_EQ(trained(*device_, *compute_, traits.kind, {spec}),
                trained(*device_, *compute_, traits.kind, apart));
    }
    EXPECT_NE(trained(*device_, *compute_, traits.kind, {qkv}),
              trained(*device_, *compute_, traits.kind, {whole}));
  }
}

TEST_F(OptimizerTest, AdafactorSurvivesGradientsWhoseSquaresOverflow) {
  GradientNorm norm(*device_, params_, 0);
  Optimizer optimizer(*device_, params_,
                      {.config = {.name = OptimizerKind::adafactor}, .transforms = {&norm}});
  set_gradients(3e37F);
  optimizer.prepare(0, 0.1);
  optimizer.step(*compute_, {});

  EXPECT_TRUE(std::isfinite(norm.value().as<float>()[0]));
  for (const ParamId id : {decayed_, plain_})
    for (const float value : values_of<float>(params_.master(id)))
      EXPECT_TRUE(std::isfinite(value));
  const Tensor state = optimizer.factored_moments();
  for (std::int64_t i = 0; i < state.count(); ++i)
    EXPECT_TRUE(std::isfinite(state.as<float>()[i]));
}

TEST_F(OptimizerTest, ReportsTheNormOfWeightsWithoutStatistics) {
  set_gradients(2);
  GradientNorm norm(*device_, params_, 0);
  Optimizer optimizer(*device_, params_, {.config = {.weight_decay = 0}, .transforms = {&norm}});

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, {});

  EXPECT_FLOAT_EQ(norm.value().as<float>()[0], 2 * std::sqrt(24.0F));
}

TEST_F(OptimizerTest, ClipsTheWholeGradientToTheNorm) {
  set_gradients(2);
  const auto before = values_of<float>(params_.master(plain_));
  GradientNorm norm(*device_, params_, 1.0F);
  Optimizer optimizer(*device_, params_,
                      {.config = {.name = OptimizerKind::sgd, .weight_decay = 0, .momentum = 0},
                       .transforms = {&norm}});

  optimizer.prepare(0, 1.0);
  optimizer.step(*compute_, {});

  const auto after = values_of<float>(params_.master(plain_));
  const float moved = 1.0F / std::sqrt(24.0F);
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], before[i] - moved, 1e-6F);
}

TEST_F(OptimizerTest, MovesRunningStatisticsByTheirOwnDecay) {
  set_gradients(11);
  Optimizer optimizer(*device_, params_, {.config = {.weight_decay = 0}});

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, {});

  for (const float value : values_of<float>(params_.master(statistic_)))
    EXPECT_FLOAT_EQ(value, 0.9F + 0.1F * 11);
}

TEST_F(OptimizerTest, LeavesEverythingUntouchedWhenAGradientIsNotFinite) {
  set_gradients(1);
  params_.gradient(plain_).as<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  params_.gradient(statistic_).as<float>()[0] = std::numeric_limits<float>::infinity();
  const auto before = values_of<float>(params_.masters().whole());
  GradientNorm norm(*device_, params_, 1.0F);
  Optimizer optimizer(*device_, params_, {.config = {.weight_decay = 0}, .transforms = {&norm}});

  optimizer.prepare(0, 0.01);
  optimizer.step(*compute_, {});
  EXPECT_EQ(values_of<float>(params_.masters().whole()), before);
  EXPECT_FALSE(std::isfinite(norm.value().as<float>()[0]));

  set_gradients(1);
  optimizer.prepare(1, 0.01);
  optimizer.step(*compute_, {.number = 1});
  for (const float value : values_of<float>(params_.masters().whole()))
    EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace trireme
