// SPDX-License-Identifier: Apache-2.0
// The chain with layers simple enough to follow by hand.
#include "runtime/nn/model.h"

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>

#include "runtime/ops/random/init.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

// y = factor * x; keeps scratch to check that regions do not overlap, and x to check that it is
// restored when recomputed.
class Scale final : public Layer {
 public:
  Scale(Blueprint& blueprint, float factor, bool in_place)
      : Layer("scale", Shape{4}),
        factor_(factor),
        in_place_(in_place),
        split_backward_(blueprint.splits_backward()),
        scratch_(blueprint.scratch({4}, DType::f32)),
        x_(blueprint.keep({4})),
        dy_(blueprint.until_weight({4})) {
    parameter_ =
        blueprint.parameter({.name = "factor", .shape = {1}, .init = Init::constant(factor)});
  }
  [[nodiscard]] bool backward_in_place() const override { return in_place_; }
  [[nodiscard]] bool splits_backward() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override {
    float* const scratch = context(scratch_).as<float>();
    for (int i = 0; i < 4; ++i)
      scratch[i] = factor_ * x.as<float>()[i];
    for (int i = 0; i < 4; ++i)
      y.as<float>()[i] = scratch[i];
    std::copy_n(x.as<float>(), 4, context(x_).as<float>());
    recomputed += context.recomputing ? 1 : 0;
  }
  void backward(const Context& context, const Tensor&, const Tensor&, const Tensor& dy,
                const Tensor& dx) override {
    float* const scratch = context(scratch_).as<float>();
    for (int i = 0; i < 4; ++i)
      scratch[i] = -1e9F;  // must not touch dy or dx
    std::copy_n(dy.as<float>(), 4, context(dy_).as<float>());
    if (!split_backward_) accumulate(context);
    for (int i = 0; i < 4 && !dx.empty(); ++i)
      dx.as<float>()[i] = factor_ * dy.as<float>()[i];
  }
  void backward_weight(const Context& context, const Tensor&) override { accumulate(context); }

  static inline int recomputed = 0;

 private:
  void accumulate(const Context& context) const {
    const float* const x = context(x_).as<float>();
    const float* const dy = context(dy_).as<float>();
    context.params.gradient(parameter_).as<float>()[0] += std::inner_product(x, x + 4, dy, 0.0F);
    context.ready(parameter_);
  }

  float factor_;
  bool in_place_, split_backward_;
  Activation scratch_, x_, dy_;
  ParamId parameter_;
};

// losses = x; d(loss)/dx = 1.
class SumHead final : public Layer {
 public:
  SumHead() : Layer("head", Shape{}) {}
  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  [[nodiscard]] bool splits_backward() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor&) override {
    for (int i = 0; i < 4; ++i)
      context.losses.as<float>()[i] = x.as<float>()[i];
  }
  void backward(const Context&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor& dx) override {
    for (int i = 0; i < 4; ++i)
      dx.as<float>()[i] = 1;
  }

  void backward_weight(const Context&, const Tensor&) override {}  // no parameters

 private:
  HeadInfo info_{.targets = 4};
};

// Three Scales and a SumHead; the Scales are blocks.
Chain chain_of(bool in_place) {
  Chain chain;
  for (const float factor : {2.0F, 3.0F, 5.0F}) {
    const std::string name = "layer" + std::to_string(chain.size());
    chain.push_back({.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
                       const auto scope = blueprint.layer(name);
                       return std::make_unique<Scale>(blueprint, factor, in_place);
                     },
                     .block = true});
  }
  chain.push_back(
      {.make = [](Blueprint&) -> std::unique_ptr<Layer> { return std::make_unique<SumHead>(); }});
  return chain;
}

class ModelTest : public test::CpuFixture, public testing::WithParamInterface<bool> {
 protected:
  static constexpr BuildOptions training{.training = true};

  void start(Model& model) {
    model.params().initialize(*compute_, 1);
    ops::fill_constant(*compute_, model.params().gradients().whole(), 0);
  }
  static float gradient(const Model& model, int parameter) {
    return model.params().gradient({parameter}).as<float>()[0];
  }
  // d(loss)/d(factor_i) = sum over elements of (x scaled by the layers before) * (factors after).
  static void expect_gradients(const Model& model, float sum_of_inputs) {
    EXPECT_EQ(gradient(model, 0), sum_of_inputs * 15);
    EXPECT_EQ(gradient(model, 1), sum_of_inputs * 2 * 5);
    EXPECT_EQ(gradient(model, 2), sum_of_inputs * 6);
  }

  const test::Owned<float> input_{*device_, {4}, {1, 2, 3, 4}};
  const test::Owned<float> other_{*device_, {4}, {10, 20, 30, 40}};
  const Batch batch_{input_.tensor(), {}, {}, {}};
  const Batch other_batch_{other_.tensor(), {}, {}, {}};
};

TEST_F(ModelTest, GivesLayersTheirScopeNames) {
  Model model(*device_, chain_of(false), training);

  EXPECT_EQ(model.params().layout().specs()[1].name, "layer1.factor");
}

TEST_F(ModelTest, SummarizesEachLayerAlone) {
  const auto layers = summarize(chain_of(false), DeviceType::cpu, training);

  ASSERT_EQ(layers.size(), 4U);
  EXPECT_EQ(layers[1].name, "scale");
  EXPECT_EQ(layers[1].output, Shape{4});
  ASSERT_EQ(layers[1].params.size(), 1U);
  EXPECT_EQ(layers[1].params[0].name, "layer1.factor");
  EXPECT_TRUE(layers[1].splits_backward);
  EXPECT_EQ(layers[3].output.rank(), 0U);
}

TEST_P(ModelTest, PropagatesGradientsThroughAlternatingOrSharedBoundaries) {
  Model model(*device_, chain_of(GetParam()), training);
  start(model);
  const Context context = model.context(*compute_, batch_, true);

  model.forward(context);
  model.backward(context);

  EXPECT_EQ(test::values_of<float>(context.losses), (std::vector<float>{30, 60, 90, 120}));
  expect_gradients(model, 10);
}

TEST_P(ModelTest, RecomputesABlockRightBeforeItsBackward) {
  Scale::recomputed = 0;
  BuildOptions full = training;
  full.recompute = Recompute::full;
  Model model(*device_, chain_of(GetParam()), full);
  start(model);
  const Context context = model.context(*compute_, batch_, true);

  model.forward(context);
  EXPECT_EQ(Scale::recomputed, 0);
  model.backward(context);

  EXPECT_EQ(Scale::recomputed, 3);
  expect_gradients(model, 10);
}

TEST_P(ModelTest, LeavesParameterGradientsOfASplitBackwardToBackwardWeight) {
  BuildOptions split = training;
  split.split_backward = true;
  Model model(*device_, chain_of(GetParam()), split);
  start(model);
  const Context context = model.context(*compute_, batch_, true);

  model.forward(context);
  model.backward(context);
  expect_gradients(model, 0);
  model.backward_weight(context);

  expect_gradients(model, 10);
}

TEST_P(ModelTest, KeepsTheMicroBatchesInFlightOfEachChunkApart) {
  const std::array<ChunkSpan, 2> spans{ChunkSpan{0, 2, 2}, ChunkSpan{2, 4, 2}};
  const std::array<Handover, 2> inputs{Handover{}, Handover{Shape{4}}};
  Model model(*device_, chain_of(GetParam()), training, spans, inputs);
  start(model);
  const auto hand_on = [&](const Tensor& to, const Tensor& from) {
    ASSERT_EQ(to.shape, from.shape);
    device_->copy(*compute_, to.data, from.data, from.bytes());
  };
  const std::array<const Batch*, 2> batches{&batch_, &other_batch_};
  const auto context = [&](int chunk, int micro_batch) {
    return model.context(*compute_, *batches[static_cast<std::size_t>(micro_batch)], true, chunk,
                         micro_batch);
  };

  for (const int m : {0, 1}) {
    model.forward(context(0, m));
    hand_on(model.input(context(1, m)), model.output(context(0, m)));
    model.forward(context(1, m));
  }
  for (const int m : {1, 0}) {
    model.backward(context(1, m));
    hand_on(model.output_gradient(context(0, m)), model.input_gradient(context(1, m)));
    model.backward(context(0, m));
  }

  EXPECT_EQ(test::values_of<float>(context(1, 0).losses), (std::vector<float>{30, 60, 90, 120}));
  EXPECT_EQ(test::values_of<float>(context(1, 1).losses),
            (std::vector<float>{300, 600, 900, 1200}));
  expect_gradients(model, 110);
  EXPECT_TRUE(model.input(context(0, 0)).empty());
  EXPECT_TRUE(model.output(context(1, 0)).empty());
}

enum class Mistake : std::uint8_t {
  none,
  reads_scratch_of_forward,
  leaves_output,
  leaves_input_gradient,
  leaves_kept
};

// y = 2 x, with a mistake of memory that a second micro-batch of equal values does not show.
class Careless final : public Layer {
 public:
  Careless(Blueprint& blueprint, Mistake mistake)
      : Layer("careless", Shape{4}),
        mistake_(mistake),
        scratch_(blueprint.scratch({4}, DType::f32)),
        x_(blueprint.keep({4})) {
    parameter_ = blueprint.parameter({.name = "factor", .shape = {1}, .init = Init::constant(2)});
  }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override {
    std::copy_n(x.as<float>(), 4, context(scratch_).as<float>());
    const auto count = [&](Mistake leaves) { return calls_ > 0 && mistake_ == leaves ? 3 : 4; };
    std::copy_n(x.as<float>(), count(Mistake::leaves_kept), context(x_).as<float>());
    for (int i = 0; i < count(Mistake::leaves_output); ++i)
      y.as<float>()[i] = 2 * x.as<float>()[i];
  }
  void backward(const Context& context, const Tensor&, const Tensor&, const Tensor& dy,
                const Tensor& dx) override {
    const bool stale = mistake_ == Mistake::reads_scratch_of_forward;
    const float* const x = context(stale ? scratch_ : x_).as<float>();
    float& gradient = context.params.gradient(parameter_).as<float>()[0];
    gradient += std::inner_product(x, x + 4, dy.as<float>(), 0.0F);
    const int count = calls_ > 0 && mistake_ == Mistake::leaves_input_gradient ? 3 : 4;
    for (int i = 0; i < count && !dx.empty(); ++i)
      dx.as<float>()[i] = 2 * dy.as<float>()[i];
    context.ready(parameter_);
    ++calls_;
  }

 private:
  Mistake mistake_;
  Activation scratch_, x_;
  ParamId parameter_;
  int calls_ = 0;
};

// Two layers: gradients of the first after a micro-batch, and one more of the same.
class PoisonTest : public ModelTest {
 protected:
  float gradient_after_two(Mistake mistake, bool poisoned) {
    Chain chain;
    for (const char* const name : {"first", "second"}) {
      const auto mistaken = std::string_view(name) == "second" ? mistake : Mistake::none;
      chain.push_back({.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
        const auto scope = blueprint.layer(name);
        return std::make_unique<Careless>(blueprint, mistaken);
      }});
    }
    chain.push_back(
        {.make = [](Blueprint&) -> std::unique_ptr<Layer> { return std::make_unique<SumHead>(); }});
    Model model(*device_, chain, training);
    model.poison_activations(poisoned);
    start(model);
    const Context context = model.context(*compute_, batch_, true);
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      model.forward(context);
      model.backward(context);
    }
    float sum = gradient(model, 0) + gradient(model, 1);
    for (const float loss : test::values_of<float>(context.losses))
      sum += loss;
    return sum;
  }
};

TEST_F(PoisonTest, ChangesNothingInCorrectLayers) {
  const float clean = gradient_after_two(Mistake::none, false);
  EXPECT_EQ(gradient_after_two(Mistake::none, true), clean);
}

TEST_F(PoisonTest, ShowsEachReadOfAnEarlierPassesData) {
  const float clean = gradient_after_two(Mistake::none, false);
  for (const Mistake mistake : {Mistake::leaves_output, Mistake::leaves_input_gradient,
                                Mistake::leaves_kept, Mistake::reads_scratch_of_forward}) {
    SCOPED_TRACE(static_cast<int>(mistake));
    const float unnoticed = gradient_after_two(mistake, false);
    // The scratch of both layers' passes contains other values, but numbers.
    if (mistake == Mistake::reads_scratch_of_forward)
      EXPECT_TRUE(std::isfinite(unnoticed));
    else
      EXPECT_EQ(unnoticed, clean);
    EXPECT_TRUE(std::isnan(gradient_after_two(mistake, true)));
  }
}

INSTANTIATE_TEST_SUITE_P(InPlace, ModelTest, testing::Bool());

TEST_F(ModelTest, RefusesAChunkInsideTheChainWithoutItsInputShape) {
  const std::array<ChunkSpan, 1> spans{ChunkSpan{2, 4, 1}};

  EXPECT_THROW(Model(*device_, chain_of(false), training, spans), Error);
}

TEST_F(ModelTest, RefusesToRecomputeWholeBlocksUnderASplitBackward) {
  const BuildOptions both{.training = true, .recompute = Recompute::full, .split_backward = true};

  EXPECT_THROW(Model(*device_, chain_of(false), both), Error);
}

TEST_F(ModelTest, RefusesToNameTheHeadOfAChunkWithoutOne) {
  const std::array<ChunkSpan, 1> spans{ChunkSpan{0, 2, 1}};
  const Model model(*device_, chain_of(false), training, spans);

  EXPECT_FALSE(model.has_head());
  EXPECT_THROW(static_cast<void>(model.head()), Error);
}

class RecordingHook final : public LayerHook {
 public:
  void before_forward(int unit, int next) override {
    calls.push_back("F" + std::to_string(unit) + ">" + std::to_string(next));
  }
  void before_backward(int unit, int next) override {
    calls.push_back("B" + std::to_string(unit) + ">" + std::to_string(next));
  }
  std::vector<std::string> calls;
};

TEST_F(ModelTest, PassesTheRunningAndNextLayerToTheHook) {
  const std::array<ChunkSpan, 2> spans{ChunkSpan{0, 1, 1}, ChunkSpan{2, 4, 1}};
  const std::array<Handover, 2> inputs{Handover{}, Handover{Shape{4}}};
  Model model(*device_, chain_of(false), training, spans, inputs);
  start(model);
  RecordingHook hook;
  model.set_hook(&hook);

  model.forward(model.context(*compute_, batch_, true, 1));
  model.backward(model.context(*compute_, batch_, true, 1));
  model.forward(model.context(*compute_, batch_, true, 0));

  EXPECT_EQ(hook.calls, (std::vector<std::string>{"F1>2", "F2>-1", "B2>1", "B1>-1", "F0>-1"}));
}

// y = x, and no more than that.
class Copy final : public Layer {
 public:
  Copy() : Layer("copy", Shape{4}) {}
  void forward(const Context&, const Tensor& x, const Tensor& y) override {
    std::copy_n(x.as<float>(), 4, y.as<float>());
  }
  void backward(const Context&, const Tensor&, const Tensor&, const Tensor&,
                const Tensor&) override {}
};

TEST_F(ModelTest, RefusesBackwardWeightOfALayerThatDoesNotSplit) {
  Chain chain = chain_of(false);
  chain.insert(chain.begin() + 1, {.make = [](Blueprint&) -> std::unique_ptr<Layer> {
                 return std::make_unique<Copy>();
               }});
  Model model(*device_, chain, training);
  start(model);
  const Context context = model.context(*compute_, batch_, true);
  model.forward(context);
  model.backward(context);

  EXPECT_FALSE(summarize(chain, DeviceType::cpu, training)[1].splits_backward);
  EXPECT_THROW(model.backward_weight(context), Error);
}

TEST_F(ModelTest, LetsScratchOfChainLayersOverlapButNeverNestedOnes) {
  ParamStore params;
  Blueprint blueprint(params, DeviceType::cpu, {});
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

TEST_F(ModelTest, MakesARecomputedBlocksActivationsScratch) {
  ParamStore params;
  Blueprint blueprint(params, DeviceType::cpu, {.training = true});

  blueprint.begin_layer({}, /*recomputed=*/true);
  const Activation inside = blueprint.keep({4});
  blueprint.begin_layer({}, /*recomputed=*/false);
  const Activation outside = blueprint.keep({4});

  EXPECT_EQ(inside.space, Activation::Space::scratch);
  EXPECT_EQ(outside.space, Activation::Space::kept);
}

}  // namespace
}  // namespace trireme
