// SPDX-License-Identifier: Apache-2.0
// What an evaluation measures, by the kind of targets.
#include <cmath>
#include <numeric>

#include "launch/engine/engine.h"
#include "tests/models/linear_head.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"
#include "tests/train/fixed_source.h"

namespace trireme {
namespace {

using Floats = std::vector<float>;
using Classes = std::vector<std::int32_t>;

class EvaluationTest : public test::MpiTest {
 protected:
  static constexpr std::int64_t samples = 2, features = 3;

  // Of one micro-batch on each rank, without an update before; also the head's outputs.
  std::pair<EvaluationResult, Floats> evaluated(const Chain& chain, const TargetSpec& targets,
                                                const Batch& batch) {
    Config config;
    config.precision = Precision::fp32;
    config.parallel.data = size();
    config.train.micro_batch = samples;
    config.train.global_batch = samples * size();
    auto own = world().split(0, rank(), "world");
    ProcessMesh mesh(*own, mesh_shape(config.parallel));
    Engine engine({{&device(), [](Device*) {}}, std::move(own), nullptr, std::move(mesh)}, config,
                  Purpose::train,
                  {.model = OwnModel{chain, {InputKind::images, targets, 1, "images"}},
                   .batches = [&](Device&, const Config&) {
                     return std::make_unique<test::FixedSource>(batch);
                   }});
    engine.begin();
    Session& session = engine.session();
    test::FixedSource source(batch);
    const EvaluationResult result =
        evaluate({*session.device, *session.model, session.mesh,
                  engine.training().state->engine.runner(), session.streams, &session.tensor},
                 source, {.local_batches = 1, .parts = {size()}});
    const Context context = session.model->context(*session.streams.compute, batch, false);
    return {result, test::values_of<float>(context(session.model->head().logits))};
  }

  [[nodiscard]] static Floats inputs_of(std::int64_t rows) {
    Floats values(static_cast<std::size_t>(rows * features));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i * i + 1));
    return values;
  }
};

TEST_F(EvaluationTest, OfValuesIsTheMeanErrorOfThoseThatCount) {
  const Chain chain = test::linear_chain<ValueLoss>({samples, 4}, features, [](Blueprint& b) {
    return ValueLoss(b, {4}, {.transform = OutputTransform::tanh, .scale = 1.2F});
  });
  const Floats wanted = {0.5F, -1, 0.25F, std::nanf(""), 1, 0, -0.5F, 0.125F};
  const test::Owned<float> inputs(device(), {samples, features}, inputs_of(samples));
  const test::Owned<float> targets(device(), {samples, 4}, wanted);
  const test::Owned<std::int64_t> ids(device(), {samples}, {0, 1});
  const Batch batch{inputs.tensor(), targets.tensor(), ids.tensor(), ids.tensor()};

  const auto [result, predicted] = evaluated(chain, {TargetKind::values, {4}, 0}, batch);

  double error = 0, square = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) continue;
    const auto difference = static_cast<double>(predicted[i] - wanted[i]);
    error += std::abs(difference) / 7;
    square += difference * difference / 7;
  }
  EXPECT_EQ(result.targets, 7 * size());
  EXPECT_NEAR(result.loss, square, 1e-6);
  const Qualities quality = qualities_of({TargetKind::values, {4}}, result);
  EXPECT_NEAR(quality.mae.value(), error, 1e-6);
  EXPECT_FALSE(quality.accuracy || quality.mean_iou);
}

TEST_F(EvaluationTest, OfPixelsHasTheMeanOverlapOfItsSamples) {
  constexpr std::int64_t pixels = 6, classes = 3;
  const Chain chain =
      test::linear_chain<PixelLoss>({samples, 2, 3, classes}, features, [](Blueprint& b) {
        return PixelLoss(b, {2, 3}, classes, {1, 2, 0.5F});
      });
  const Classes wanted = {0, 0, 1, 1, 0, 2, 0, -1, -1, 0, -1, 0};
  const test::Owned<float> inputs(device(), {samples, 2, 3, features}, inputs_of(samples * pixels));
  const test::Owned<std::int32_t> targets(device(), {samples, 2, 3}, wanted);
  const test::Owned<std::int64_t> ids(device(), {samples}, {0, 1});
  const Batch batch{inputs.tensor(), targets.tensor(), ids.tensor(), ids.tensor()};

  const auto [result, logits] = evaluated(chain, {TargetKind::pixels, {2, 3}, classes}, batch);

  // Means over samples, of their counted pixels; a class that is neither predicted nor true has no
  // part in them.
  double right = 0, overlap = 0, dice = 0, marked_samples = 0;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const double counted = sample == 0 ? 6 : 3;
    double iou = 0, own_dice = 0, seen = 0, marked = 0;
    for (std::int32_t c = 0; c < classes; ++c) {
      double both = 0, either = 0, sum = 0;
      for (std::int64_t pixel = sample * pixels; pixel < (sample + 1) * pixels; ++pixel) {
        const auto first = logits.begin() + pixel * classes;
        const bool predicted = std::max_element(first, first + classes) - first == c;
        if (wanted[static_cast<std::size_t>(pixel)] < 0) continue;
        const bool actual = wanted[static_cast<std::size_t>(pixel)] == c;
        both += predicted && actual ? 1 : 0;
        either += predicted || actual ? 1 : 0;
        sum += (predicted ? 1 : 0) + (actual ? 1 : 0);
      }
      right += both / (samples * counted);
      if (either == 0) continue;
      seen += 1;
      iou += both / either;
      marked += c > 0 ? 1 : 0;
      if (c > 0) own_dice += 2 * both / sum;
    }
    overlap += iou / seen / samples;
    marked_samples += marked > 0 ? 1 : 0;
    if (marked > 0) dice += own_dice / marked;
  }
  dice /= marked_samples;
  EXPECT_EQ(result.targets, (6 + 3) * size());
  const Qualities quality = qualities_of({TargetKind::pixels}, result);
  EXPECT_NEAR(quality.accuracy.value(), right, 1e-6);
  EXPECT_NEAR(quality.mean_iou.value(), overlap, 1e-6);
  EXPECT_NEAR(quality.mean_dice.value(), dice, 1e-6);
  EXPECT_FALSE(quality.mae);
}

}  // namespace
}  // namespace trireme
