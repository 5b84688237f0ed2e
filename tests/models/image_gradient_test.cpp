// SPDX-License-Identifier: Apache-2.0
// Models of images, volumes, signals and tables: every parameter's gradient against finite
// differences of the loss.
#include <limits>

#include "models/cosmoflow/cosmoflow.h"
#include "models/deepcam/deepcam.h"
#include "models/mlp/mlp.h"
#include "models/resnet/resnet.h"
#include "models/unet/unet.h"
#include "tests/models/gradient_fixture.h"

namespace trireme {
namespace {

using test::ModelGradientTest;

class ResNetGradientTest : public ModelGradientTest, public testing::WithParamInterface<bool> {};

TEST_P(ResNetGradientTest, MatchesFiniteDifferences) {
  const bool bottleneck = GetParam();
  const std::int64_t size = bottleneck ? 33 : 9;
  Model model(
      *device_,
      resnet_chain(
          {.block = bottleneck ? ResNetBlockKind::bottleneck : ResNetBlockKind::basic,
           .stages = {1, 1},
           .width = 8,
           .stem = bottleneck ? ResNetStemKind::imagenet : ResNetStemKind::small,
           .image_size = size,
           .channels = bottleneck ? 3 : 1,
           .classes = 5},
          {.random = false, .mean = {0.5F, 0.5F, 0.5F, 0}, .stddev = {0.3F, 0.3F, 0.3F, 1}}),
      {.micro_batch = 3, .training = true});
  model.params().initialize(*compute_, 3);
  // The branches start at zero; give them something to do.
  for (int i = 0; i < static_cast<int>(model.params().layout().specs().size()); ++i) {
    const ParamSpec& spec = model.params().layout().specs()[static_cast<std::size_t>(i)];
    if (spec.kind == ParamKind::weight && spec.init.kind == Init::Kind::constant) {
      ops::fill_normal(*compute_, model.params().master({i}), 9, static_cast<std::uint64_t>(i), 0,
                       0.5F, 0.3F);
    }
  }
  const std::int64_t channels = bottleneck ? 3 : 1;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * size * size * channels));
  std::mt19937 engine(4);
  for (auto& pixel : pixels)
    pixel = static_cast<std::uint8_t>(engine());
  const test::Owned<std::uint8_t> images(*device_, {3, size, size, channels}, pixels);
  const test::Owned<std::int32_t> labels(*device_, {3}, {1, 4, 0});
  const test::Owned<std::int64_t> ids(*device_, {3}, {0, 1, 2}), epochs(*device_, {3}, {0, 0, 0});
  const Batch batch{images.tensor(), labels.tensor(), ids.tensor(), epochs.tensor()};

  expect_gradients_match(model, model.context(*compute_, batch, true), 3e-4,
                         0.03);  // ReLU has kinks
}

INSTANTIATE_TEST_SUITE_P(BasicAndBottleneck, ResNetGradientTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Bottleneck" : "Basic"; });

TEST_F(ModelGradientTest, OfCosmoFlowWithADroppedAndAMissingTarget) {
  constexpr std::int64_t size = 9, channels = 2, samples = 3;
  Model model(*device_,
              cosmoflow_chain(CosmoFlowOptions{.size = size,
                                               .channels = channels,
                                               .targets = 2,
                                               .filters = 4,
                                               .halvings = 2,
                                               .dense = {7, 5},
                                               .dropout = 0.3}),
              {.micro_batch = samples, .training = true});
  model.params().initialize(*compute_, 3);
  std::mt19937 engine(4);
  std::normal_distribution<float> normal;
  std::vector<float> voxels(static_cast<std::size_t>(samples * size * size * size * channels));
  for (auto& voxel : voxels)
    voxel = normal(engine);
  const test::Owned<float> volumes(*device_, {samples, size, size, size, channels}, voxels);
  const test::Owned<float> values(*device_, {samples, 2},
                                  {0.5F, -1, std::numeric_limits<float>::quiet_NaN(), 2, 0.1F, 0});
  const test::Owned<std::int64_t> ids(*device_, {3}, {0, 1, 2}), epochs(*device_, {3}, {0, 0, 0});
  const Batch batch{volumes.tensor(), values.tensor(), ids.tensor(), epochs.tensor()};
  const test::Owned<std::uint64_t> rng(*device_, {2}, {1, 0});
  Context context = model.context(*compute_, batch, true);
  context.rng = rng.tensor();

  expect_gradients_match(model, context, 3e-4, 0.03);  // LeakyReLU and maxima have kinks
}

// Of signals (length 11) with convolutions, and of tables without; classes, and values.
class MlpGradientTest : public ModelGradientTest, public testing::WithParamInterface<bool> {};

TEST_P(MlpGradientTest, OfSignalsAndTables) {
  const bool signals = GetParam();
  const std::int64_t length = signals ? 11 : 1, channels = 3, samples = 4;
  const MlpOptions options{
      .length = length,
      .channels = channels,
      .convolutions = signals ? std::vector<std::int64_t>{4, 5} : std::vector<std::int64_t>{},
      .kernel_size = 3,
      .dense = {6},
      .head = signals ? HeadKind::classes : HeadKind::values,
      .classes = 3,
      .targets = 2};
  Model model(*device_, mlp_chain(options, head_choice(options)),
              {.micro_batch = samples, .training = true});
  model.params().initialize(*compute_, 3);
  std::mt19937 engine(4);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(samples * length * channels));
  for (auto& number : numbers)
    number = normal(engine);
  const test::Owned<float> inputs(*device_, {samples, 1, length, channels}, numbers);
  const test::Owned<std::int32_t> labels(*device_, {samples}, {1, 2, 0, 1});
  const test::Owned<float> values(*device_, {samples, 2}, {0.5F, -1, 1, 2, 0.1F, 0, 3, -2});
  const test::Owned<std::int64_t> ids(*device_, {samples}, {0, 1, 2, 3}),
      epochs(*device_, {samples}, {0, 0, 0, 0});
  const Batch batch{inputs.tensor(), signals ? labels.tensor() : values.tensor(), ids.tensor(),
                    epochs.tensor()};
  if (signals) {
    EXPECT_EQ(model.params().layout().specs().front().shape, (Shape{4, 1, 3, 3}));
  }

  expect_gradients_match(model, model.context(*compute_, batch, true), 3e-4,
                         0.03);  // ReLU has kinks
}

INSTANTIATE_TEST_SUITE_P(SignalsAndTables, MlpGradientTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Signals" : "Tables"; });

class PixelGradientTest : public ModelGradientTest {
 protected:
  // Two samples of this shape with three classes, one pixel without a class.
  void expect_pixel_gradients_match(const Chain& chain, const Shape& shape, double step) {
    Model model(*device_, chain, {.micro_batch = 2, .training = true});
    model.poison_activations(true);
    model.params().initialize(*compute_, 3);
    std::mt19937 engine(4);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    for (auto& value : values)
      value = normal(engine);
    std::vector<std::int32_t> classes = random_tokens(static_cast<std::size_t>(shape.rows()), 3, 5);
    classes[1] = ignored_target;
    const test::Owned<float> fields(*device_, shape, values);
    const test::Owned<std::int32_t> targets(*device_, {2, shape.rows() / 2}, classes);
    const test::Owned<std::int64_t> ids(*device_, {2}, {0, 1}), epochs(*device_, {2}, {0, 0});
    const Batch batch{fields.tensor(), targets.tensor(), ids.tensor(), epochs.tensor()};

    expect_gradients_match(model, model.context(*compute_, batch, true), step,
                           0.03);  // ReLU and maxima have kinks
  }
};

struct UNetCase {
  const char* name;
  UNetOptions options;
  bool dice = false;
};

class UNetGradientTest : public PixelGradientTest, public testing::WithParamInterface<UNetCase> {};

TEST_P(UNetGradientTest, MatchesFiniteDifferences) {
  UNetOptions options = GetParam().options;
  options.channels = 2;
  options.classes = 3;
  options.levels = 2;
  options.class_weights = {1, 0.5, 2};
  TrainConfig train;
  if (GetParam().dice) train.loss = LossChoice::dice_cross_entropy;

  expect_pixel_gradients_match(unet_chain(options, train), options.input(2), 1e-4);
}

class UNetValueGradientTest : public ModelGradientTest,
                              public testing::WithParamInterface<UNetOptions> {};

TEST_P(UNetValueGradientTest, OfMapsOfValuesMatchesFiniteDifferences) {
  UNetOptions options = GetParam();
  options.channels = 2;
  options.values = 3;
  options.levels = 2;
  options.nonlinearity = UNetActivation::tanh;
  const Shape shape = options.input(2);
  for (const LossChoice loss : {LossChoice::mse, LossChoice::huber}) {
    TrainConfig train;
    train.loss = loss;
    train.huber_delta = 0.5;
    Model model(*device_, unet_chain(options, train), {.micro_batch = 2, .training = true});
    model.poison_activations(true);
    model.params().initialize(*compute_, 3);
    std::mt19937 engine(4);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    std::vector<float> wanted(static_cast<std::size_t>(shape.rows() * options.values));
    for (auto& value : values)
      value = normal(engine);
    for (auto& value : wanted)
      value = normal(engine);
    wanted[1] = std::numeric_limits<float>::quiet_NaN();
    const test::Owned<float> fields(*device_, shape, values);
    const test::Owned<float> targets(*device_, {2, shape.rows() / 2, options.values}, wanted);
    const test::Owned<float> weights(*device_, {2}, {0.5F, 2});
    const test::Owned<std::int64_t> ids(*device_, {2}, {0, 1}), epochs(*device_, {2}, {0, 0});
    Batch batch{fields.tensor(), targets.tensor(), ids.tensor(), epochs.tensor()};
    batch.weights = weights.tensor();

    EXPECT_EQ(model.head().targets, shape.rows() * options.values);
    expect_gradients_match(model, model.context(*compute_, batch, true), 1e-4, 0.03);
  }
}

const UNetOptions unet_image{.image_size = 15, .image_width = 22, .filters = 4};
const UNetOptions unet_volume{.image_size = 7, .image_width = 10, .depth = 5, .filters = 4};
const UNetOptions unet_of_mlperf{.image_size = 12,
                                 .image_width = 20,
                                 .depth = 8,
                                 .filters = 3,
                                 .widest = 5,
                                 .down = UNetDown::stride,
                                 .norm = UNetNormKind::instance};

UNetOptions with(UNetOptions options, UNetNormKind norm, UNetActivation nonlinearity) {
  options.norm = norm;
  options.norm_groups = 2;
  options.nonlinearity = nonlinearity;
  return options;
}

INSTANTIATE_TEST_SUITE_P(ImagesAndVolumes, UNetValueGradientTest,
                         testing::Values(unet_image, unet_volume));

INSTANTIATE_TEST_SUITE_P(
    Options, UNetGradientTest,
    testing::Values(UNetCase{"Images", unet_image}, UNetCase{"Volumes", unet_volume},
                    UNetCase{"Mlperfs", unet_of_mlperf, true},
                    UNetCase{"BatchNormAndTanh",
                             with(unet_image, UNetNormKind::batch, UNetActivation::tanh)},
                    UNetCase{"GroupNormAndLeakyRelu",
                             with(unet_volume, UNetNormKind::group, UNetActivation::leaky_relu)},
                    UNetCase{"StridesAndTanh",
                             with(unet_of_mlperf, UNetNormKind::instance, UNetActivation::tanh)}),
    [](const auto& info) { return info.param.name; });

TEST_F(PixelGradientTest, OfDeepCamMatchFiniteDifferences) {
  const DeepCamOptions options{.image_size = 83,
                               .image_width = 98,
                               .channels = 2,
                               .classes = 3,
                               .filters = 2,
                               .middle_blocks = 1,
                               .class_weights = {1, 0.5, 2}};

  expect_pixel_gradients_match(deepcam_chain(options), options.input(2), 5e-5);
}

}  // namespace
}  // namespace trireme
