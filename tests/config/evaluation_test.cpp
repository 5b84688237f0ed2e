// SPDX-License-Identifier: Apache-2.0
// Evaluations: their times, the target that ends a run, MLPerf's log; and seeds from the clock.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/config/batch_ramp.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string measured = R"(
data: {path: shards, validation_path: held}
train: {steps: 100, global_batch: 8, eval_every: 10}
)";
const std::string cosmoflow = R"(
model: {family: cosmoflow}
data: {files: [a], validation_files: [b], inputs: [x], target: y, axes: DHWC}
train: {eval_every: 10}
)";

std::string stop(const std::string& target) {
  return "train.stop_at=" + target;
}

TEST(ConfigStopTarget, IsReadFromBracesAndWrittenBack) {
  const Config config =
      resolved(measured + "  # below\n", {stop("{metric: eval_loss, below: 3.3}")});
  EXPECT_EQ(config.train.stop_at, (StopTarget{.metric = "eval_loss", .below = 3.3}));
  EXPECT_EQ(parsed(to_yaml(config)), config);
  EXPECT_EQ(parsed("train:\n  stop_at:\n    metric: mae\n    above: -1\n").train.stop_at,
            (StopTarget{.metric = "mae", .above = -1}));
  EXPECT_EQ(resolved(measured, {stop("{metric: eval_loss, below: 3}"), stop("{}")}).train.stop_at,
            StopTarget{});
}

TEST(ConfigStopTarget, WhatItCannotMeanIsRefusedWithTheFix) {
  const auto refused = [](const std::string& target) { return refusal(measured, {stop(target)}); };
  EXPECT_THAT(refused("{metric: accuracy, above: 0.9}"),
              AllOf(HasSubstr("metric: 'accuracy' is none of model.family: gpt2; use eval_loss")));
  EXPECT_THAT(refused("{below: 3}"), HasSubstr("metric: '' is none of"));
  EXPECT_THAT(refused("{metric: eval_loss}"),
              HasSubstr("neither below nor above for eval_loss; give one of them, such as {metric: "
                        "eval_loss, below: 0.5}"));
  EXPECT_THAT(refused("{metric: eval_loss, below: 1, above: 2}"),
              HasSubstr("both below and above"));
  EXPECT_THAT(refused("{metric: eval_loss, under: 1}"),
              HasSubstr("under: not a key of a target; write {metric: NAME, below"));
  EXPECT_THAT(refused("{metric: eval_loss, below: low}"), HasSubstr("expected a number"));
  EXPECT_THAT(refused("3.3"), HasSubstr("expected {metric: NAME, below: X} or"));
  EXPECT_THAT(refusal(measured, {stop("{metric: eval_loss, below: 1}"), "train.eval_every=0"}),
              HasSubstr("set train.eval_every or train.eval_every_samples"));
  EXPECT_THAT(refusal(gpt, {stop("{metric: eval_loss, below: 1}")}),
              HasSubstr("needs data.validation_path"));
  EXPECT_THAT(refusal(cosmoflow, {stop("{metric: mean_iou, above: 1}")}),
              HasSubstr("use eval_loss or mae"));
}

TEST(ConfigStopTarget, TheValueThatReachedItIsStoredWithItsBits) {
  const ReachedTarget reached{"mae", 0.1 + 0.2};
  const auto again = reached_target(stored_text(reached));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->metric, "mae");
  EXPECT_EQ(again->value, 0.1 + 0.2);
  EXPECT_TRUE(again->passes({.metric = "mae", .below = 0.31}));
  EXPECT_FALSE(again->passes({.metric = "mae", .below = 0.3}));
  EXPECT_FALSE(again->passes({.metric = "eval_loss", .below = 1}));
  EXPECT_FALSE(again->passes({}));
  EXPECT_FALSE(reached_target("").has_value());
  EXPECT_FALSE((StopTarget{.metric = "mae", .below = 1}).passed_by(std::nan("")));
}

TEST(ConfigEvaluation, IsDueWhereTheSamplesPassAMultiple) {
  const auto due = [](const std::vector<std::string>& set) {
    const Config config = resolved(measured, set);
    std::vector<std::int64_t> steps;
    for (std::int64_t done = 1; done <= 12; ++done)
      if (evaluation_is_due(config.train, done)) steps.push_back(done);
    return steps;
  };
  EXPECT_THAT(due({}), ElementsAre(10));
  const std::string none = "train.eval_every=0", twenty = "train.eval_every_samples=20";
  EXPECT_THAT(due({none}), ElementsAre());
  // 8 samples a step: 24, 40, 64, 80.
  EXPECT_THAT(due({none, twenty}), ElementsAre(3, 5, 8, 10));
  // 4, 8, 16, 24, 32, 40, ...
  EXPECT_THAT(due({none, twenty, "train.micro_batch=4", "train.batch_ramp=[0:4, 2:8]"}),
              ElementsAre(4, 6, 9, 11));
  // A step may pass several.
  EXPECT_THAT(due({none, "train.eval_every_samples=3"}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST(ConfigEvaluation, HasOneDistanceAndNeedsData) {
  EXPECT_THAT(refusal(gpt, {"train.eval_every_samples=20"}),
              HasSubstr("20 needs data.validation_path"));
  const Config config = resolved(
      "data: {path: shards, validation_path: held}\n"
      "train: {eval_every_samples: 8, stop_at: {metric: eval_loss, below: 1}}\n",
      {"data.validation_path="});
  EXPECT_EQ(config.train.eval_every_samples, 0);
  EXPECT_FALSE(config.train.stop_at.given());
}

TEST(ConfigSeed, ComesFromTheClockOnRequest) {
  EXPECT_TRUE(parsed("run: {seed: clock}").run.seed.from_clock);
  EXPECT_THAT(to_yaml(parsed("run: {seed: clock}")), HasSubstr("  seed: clock\n"));
  EXPECT_FALSE(parsed("run: {seed: clock}", {"run.seed=5"}).run.seed.from_clock);
  EXPECT_THAT(parse_error("run: {seed: time}"), HasSubstr("expected an integer, found"));
}

TEST(ConfigMllog, NamesTheBenchmarkAndItsSubmitter) {
  const std::vector<std::string> whole{
      "telemetry.mllog=result_0.txt", "telemetry.mllog_benchmark=cosmoflow",
      "telemetry.mllog_submitter=[Lab, M1, open, onprem]", stop("{metric: mae, below: 0.124}")};
  const auto refused = [&](const std::string& more) {
    std::vector<std::string> set = whole;
    set.push_back(more);
    return refusal(cosmoflow, set);
  };
  EXPECT_EQ(resolved(cosmoflow, whole).telemetry.mllog, "result_0.txt");
  EXPECT_THAT(refused("telemetry.mllog_benchmark=none"),
              HasSubstr("none with telemetry.mllog: 'result_0.txt'; a log needs both"));
  EXPECT_THAT(refused("telemetry.mllog="), HasSubstr("a log needs both, such as cosmoflow and"));
  EXPECT_THAT(refused("telemetry.mllog=/tmp/a"), HasSubstr("leave out its directory"));
  EXPECT_THAT(refused("telemetry.mllog_benchmark=llama31_8b"),
              HasSubstr("llama31_8b is for model.family: llama, and this is cosmoflow"));
  EXPECT_THAT(refused("telemetry.mllog_submitter=[Lab]"), HasSubstr("[Lab]: give organization"));
  EXPECT_THAT(refused(stop("{metric: eval_loss, below: 1}")),
              HasSubstr("the log of cosmoflow says whether mae has reached its target; use mae"));
}

TEST(ConfigMllog, OfUNet3dNeedsVolumesAndTheirDice) {
  const std::vector<std::string> whole{"model.family=unet", "telemetry.mllog=log.txt",
                                       "telemetry.mllog_benchmark=unet3d",
                                       "telemetry.mllog_submitter=[Lab, M1, open, onprem]",
                                       stop("{metric: mean_dice, above: 0.908}")};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> set = whole;
    set.push_back(more);
    return set;
  };
  EXPECT_EQ(resolved(cosmoflow, with("model.depth=32")).train.stop_at.metric, "mean_dice");
  EXPECT_THAT(refusal(cosmoflow, with("data.axes=HWC")),
              HasSubstr("unet3d is of volumes, and this model is of images; set model.depth"));
  std::vector<std::string> other = with("model.depth=32");
  other.push_back(stop("{metric: mean_iou, above: 0.9}"));
  EXPECT_THAT(refusal(cosmoflow, other),
              HasSubstr("the log of unet3d says whether mean_dice has reached its target"));
}

TEST(ConfigEvaluation, WindowsNeedMapsOfClassesPatchesAndWholeSamples) {
  const auto unet = [](std::vector<std::string> more) {
    more.insert(more.end(), {"model.family=unet", "model.depth=32", "train.eval_overlap=0.5"});
    return more;
  };
  EXPECT_EQ(resolved(cosmoflow, unet({"data.patches=true"})).train.eval_overlap, 0.5);
  EXPECT_THAT(refusal(cosmoflow, {"train.eval_overlap=0.5"}), HasSubstr("predicts no pixels"));
  EXPECT_THAT(refusal(cosmoflow, unet({})), HasSubstr("0.5 without data.patches"));
  EXPECT_THAT(refusal(cosmoflow, unet({"data.patches=true", "data.damaged=skip"})),
              HasSubstr("0.5 with data.damaged: skip"));
}

TEST(EvaluationRules, SamplesNeedAModelThatContinuesTextsOrClassifies) {
  const std::vector<std::string> set{"telemetry.samples_every=2", "telemetry.tensorboard=true"};
  for (const char* const family : {"gpt2", "resnet", "llama, head: classes"})
    EXPECT_NO_THROW(
        (void)resolved(fmt::format("model: {{family: {}}}\ndata: {{path: x}}\n", family), set));
  EXPECT_THAT(refusal(cosmoflow, set), HasSubstr("telemetry.samples_every"));
  EXPECT_THAT(refusal("model: {family: bert, mask_token: 1}\ndata: {path: x}\n", set),
              HasSubstr("telemetry.samples_every"));
}

}  // namespace
}  // namespace trireme
