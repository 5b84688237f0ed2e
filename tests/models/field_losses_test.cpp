// SPDX-License-Identifier: Apache-2.0
// Losses of values and of pixels at the end of a chain of one linear layer.
#include <functional>

#include "tests/models/gradient_fixture.h"
#include "tests/models/linear_head.h"

namespace trireme {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values)
    value = normal(engine);
  return values;
}

class FieldLosses : public test::ModelGradientTest {
 protected:
  static constexpr std::int64_t samples = 3, features = 5;

  template <typename Loss>
  [[nodiscard]] std::unique_ptr<Model> model_of(const Shape& outputs,
                                                const std::function<Loss(Blueprint&)>& loss) {
    auto model = std::make_unique<Model>(*device_, test::linear_chain(outputs, features, loss),
                                         BuildOptions{.micro_batch = samples, .training = true});
    model->params().initialize(*compute_, 3);
    return model;
  }
};

class ValueLosses : public FieldLosses, public testing::WithParamInterface<ops::ValueLossKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ValueLosses,
                         testing::Values(ops::ValueLossKind::mse, ops::ValueLossKind::mae,
                                         ops::ValueLossKind::huber));

TEST_P(ValueLosses, GradientsThroughTheTransformMatchFiniteDifferences) {
  for (const OutputTransform transform : {OutputTransform::none, OutputTransform::tanh}) {
    const auto model = model_of<ValueLoss>({samples, 4}, [=](Blueprint& blueprint) {
      return ValueLoss(blueprint, {4},
                       {.kind = GetParam(), .delta = 0.5F, .transform = transform, .scale = 1.2F});
    });
    model->poison_activations(true);
    Floats wanted = random_floats(samples * 4, 2);
    wanted[5] = std::nanf("");
    const test::Owned<float> inputs(*device_, {samples, features},
                                    random_floats(samples * features, 1));
    const test::Owned<float> targets(*device_, {samples, 4}, wanted);
    const test::Owned<float> weights(*device_, {samples}, {1, 0.5F, 2});
    Batch batch{inputs.tensor(), targets.tensor(), {}, {}};
    batch.weights = weights.tensor();

    expect_gradients_match(*model, model->context(*compute_, batch, true), 1e-3, 0.02);
  }
}

TEST_F(FieldLosses, OfValuesLeaveThePredictionsInEvaluation) {
  const auto model = model_of<ValueLoss>({samples, 2}, [](Blueprint& blueprint) {
    return ValueLoss(blueprint, {2}, {.transform = OutputTransform::tanh, .scale = 1.2F});
  });
  const test::Owned<float> inputs(*device_, {samples, features},
                                  random_floats(samples * features, 1));
  const Floats wanted = random_floats(samples * 2, 2);
  const test::Owned<float> targets(*device_, {samples, 2}, wanted);
  const Batch batch{inputs.tensor(), targets.tensor(), {}, {}};
  const Context context = model->context(*compute_, batch, false);

  model->forward(context);

  const Floats predicted = test::values_of<float>(context(model->head().logits));
  const Floats errors = test::values_of<float>(context.correct);
  const Floats losses = test::values_of<float>(context.losses);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LT(std::abs(predicted[i]), 1.2F);
    EXPECT_FLOAT_EQ(errors[i], std::abs(predicted[i] - wanted[i]));
    EXPECT_FLOAT_EQ(losses[i], errors[i] * errors[i]);
  }
}

TEST_F(FieldLosses, OfPixelsMatchFiniteDifferencesWithWeightsOfClassesAndSamples) {
  for (const auto& [pixels, dice] : {std::pair{Shape{2, 3}, false},
                                     {Shape{2, 3, 2}, false},
                                     {Shape{2, 3}, true},
                                     {Shape{2, 3, 2}, true}}) {
    const std::int64_t of_sample = pixels.count(), all = samples * of_sample;
    const Shape outputs = pixels.rank() == 2 ? Shape{samples, 2, 3, 3} : Shape{samples, 2, 3, 2, 3};
    const auto model =
        model_of<PixelLoss>(outputs, [=, pixels = pixels, dice = dice](Blueprint& blueprint) {
          return PixelLoss(blueprint, pixels, 3, {0.5F, 3, 1.5F}, dice);
        });
    model->poison_activations(true);
    std::vector<std::int32_t> classes(static_cast<std::size_t>(all));
    for (std::size_t i = 0; i < classes.size(); ++i)
      classes[i] = static_cast<std::int32_t>(i * 7 % 4) - 1;
    const test::Owned<float> inputs(*device_, {all, features},
                                    random_floats(static_cast<std::size_t>(all * features), 1));
    const test::Owned<std::int32_t> targets(*device_, {samples, of_sample}, classes);
    const test::Owned<float> weights(*device_, {samples}, {1, 0.5F, 2});
    Batch batch{inputs.tensor().reshaped(pixels.rank() == 2 ? Shape{samples, 2, 3, features}
                                                            : Shape{samples, 2, 3, 2, features}),
                targets.tensor(),
                {},
                {}};
    batch.weights = weights.tensor();

    expect_gradients_match(*model, model->context(*compute_, batch, true), 1e-3, 0.02);
  }
}

}  // namespace
}  // namespace trireme
