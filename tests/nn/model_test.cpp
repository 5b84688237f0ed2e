// SPDX-License-Identifier: Apache-2.0
// The chain with layers simple enough to follow by hand.
#include "runtime/nn/model.h"

#include "runtime/ops/init.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

// y = factor * x; keeps its own scratch to see that regions do not overlap.
class Scale final : public Layer {
 public:
  Scale(Blueprint& blueprint, float factor, bool in_place)
      : Layer("scale", Shape{4}),
        factor_(factor),
        in_place_(in_place),
        scratch_(blueprint.scratch({4}, DType::f32)) {
    parameter_ =
        blueprint.parameter({.name = "factor", .shape = {1}, .init = Init::constant(factor)});
  }
  [[nodiscard]] double forward_flops() const override { return 4; }
  [[nodiscard]] bool backward_in_place() const override { return in_place_; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override {
    float* const scratch = context(scratch_).as<float>();
    for (int i = 0; i < 4; ++i)
      scratch[i] = factor_ * x.as<float>()[i];
    for (int i = 0; i < 4; ++i)
      y.as<float>()[i] = scratch[i];
  }
  void backward(const Context& context, const Tensor& x, const Tensor&, const Tensor& dy,
                const Tensor& dx) override {
    float* const scratch = context(scratch_).as<float>();
    for (int i = 0; i < 4; ++i)
      scratch[i] = -1e9F;  // must not touch dy or dx
    for (int i = 0; i < 4; ++i) {
      context.params.gradient(parameter_).as<float>()[0] += dy.as<float>()[i] * x.as<float>()[i];
      if (!dx.empty()) dx.as<float>()[i] = factor_ * dy.as<float>()[i];
    }
    context.ready(parameter_);
  }

 private:
  float factor_;
  bool in_place_;
  Activation scratch_;
  ParamId parameter_;
};

// losses = x; d(loss)/dx = 1.
class SumHead final : public Layer {
 public:
  SumHead() : Layer("head", Shape{}) {}
  [[nodiscard]] double forward_flops() const override { return 0; }
  void forward(const Context& context, const Tensor& x, const Tensor&) override {
    for (int i = 0; i < 4; ++i)
      context.losses.as<float>()[i] = x.as<float>()[i];
  }
  void backward(const Context&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor& dx) override {
    for (int i = 0; i < 4; ++i)
      dx.as<float>()[i] = 1;
  }
};

class ModelTest : public test::CpuFixture, public testing::WithParamInterface<bool> {
 protected:
  static Model::Declaration declare(Blueprint& blueprint, bool in_place) {
    Model::Declaration declaration;
    const float factors[] = {2, 3, 5};
    for (int i = 0; i < 3; ++i) {
      const auto scope = blueprint.layer("layer" + std::to_string(i));
      declaration.layers.push_back(std::make_unique<Scale>(blueprint, factors[i], in_place));
    }
    declaration.layers.push_back(std::make_unique<SumHead>());
    declaration.head.targets = 4;
    return declaration;
  }
};

TEST_F(ModelTest, GivesLayersTheirScopeNames) {
  Model model(*device_, DType::f32, 1, true,
              [](Blueprint& blueprint) { return declare(blueprint, false); });

  EXPECT_EQ(model.params().specs()[1].name, "layer1.factor");
  EXPECT_EQ(model.forward_flops(), 12);
}

TEST_P(ModelTest, PropagatesGradientsThroughAlternatingOrSharedBoundaries) {
  Model model(*device_, DType::f32, 1, true,
              [&](Blueprint& blueprint) { return declare(blueprint, GetParam()); });
  model.params().initialize(*compute_, 1);
  ops::fill_constant(*compute_, model.params().gradients(), 0);
  const test::Owned<float> input(*device_, {4}, {1, 2, 3, 4});
  const Batch batch{input.tensor(), {}, {}, {}};
  const Context context = model.context(*compute_, batch, true);

  model.forward(context);
  model.backward(context);

  EXPECT_EQ(test::values_of<float>(context.losses), (std::vector<float>{30, 60, 90, 120}));
  // d(loss)/d(factor_i) = sum over elements of (x scaled by the layers before) * (factors after).
  EXPECT_EQ(model.params().gradient({0}).as<float>()[0], 10 * 15);
  EXPECT_EQ(model.params().gradient({1}).as<float>()[0], 10 * 2 * 5);
  EXPECT_EQ(model.params().gradient({2}).as<float>()[0], 10 * 6);
}

INSTANTIATE_TEST_SUITE_P(InPlace, ModelTest, testing::Bool());

TEST_F(ModelTest, LetsScratchOfChainLayersOverlapButNeverNestedOnes) {
  ParamStore params;
  Blueprint blueprint(params, DeviceType::cpu, DType::f32, 1);
  Activation first, second;
  {
    const auto layer = blueprint.layer("a");
    first = blueprint.scratch({100}, DType::f32);
    const auto inner = blueprint.scope("part");
    second = blueprint.scratch({100}, DType::f32);
  }
  const auto layer = blueprint.layer("b");
  const Activation third = blueprint.scratch({100}, DType::f32);

  EXPECT_GE(second.offset, first.offset + 400);
  EXPECT_EQ(third.offset, first.offset);
  EXPECT_EQ(blueprint.full_name("x"), "b.x");
}

}  // namespace
}  // namespace trireme
