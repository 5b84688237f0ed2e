// SPDX-License-Identifier: Apache-2.0
// --set, data paths and the places that messages name.
#include <gmock/gmock.h>

#include "models/gpt/gpt.h"
#include "models/resnet/resnet.h"
#include "tests/config/support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string base = "train: {steps: 5}";

TEST(ConfigOverride, ReplacesTheValueOfTheFileInOrder) {
  EXPECT_EQ(parsed(base, {"train.steps=7"}).train.steps, 7);
  EXPECT_EQ(parsed(base, {"train.steps=7", "train.steps=9"}).train.steps, 9);
  EXPECT_EQ(parsed(base, {"precision=bf16"}).precision, Precision::bf16);
}

TEST(ConfigOverride, ReadsEveryType) {
  const Config config =
      parsed(base, {"optimizer.learning_rate=3e-4", "data.flip=true", "run.seed=7",
                    "optimizer.betas=[0.8, 0.9]", "parallel.data=auto", "model.stages=[1,2]"});

  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_TRUE(config.data.flip);
  EXPECT_EQ(config.run.seed, 7U);
  EXPECT_THAT(config.optimizer.betas, ElementsAre(0.8, 0.9));
  EXPECT_EQ(config.parallel.data, 0);
  EXPECT_THAT(config.model.as<ResNetOptions>().stages, ElementsAre(1, 2));
}

TEST(ConfigOverride, TextIsTakenAsTypedAfterTheShell) {
  EXPECT_EQ(parsed(base, {"run.directory=/tmp/a b: c #d=e"}).run.directory, "/tmp/a b: c #d=e");
  EXPECT_EQ(parsed(base, {"run.directory=\"quoted\""}).run.directory, "quoted");
  EXPECT_EQ(parsed(base, {"run.directory=*star"}).run.directory, "*star");
  EXPECT_EQ(parsed("data: {path: x}", {"data.path="}).data.path, "");
}

TEST(ConfigOverride, ErrorsNameTheOptionAsTyped) {
  EXPECT_EQ(parse_error(base, {"train.steps=abc"}),
            "--set train.steps=abc: expected an integer, found the text \"abc\"");
  EXPECT_EQ(parse_error(base, {"train.steps="}),
            "--set train.steps=: expected an integer, found no value");
  EXPECT_EQ(parse_error(base, {"train.stesp=5"}),
            "--set train.stesp=5: unknown key train.stesp; did you mean train.steps?");
  EXPECT_EQ(parse_error(base, {"train.steps"}),
            "--set train.steps: expected key.path=value, for example --set train.steps=50");
  EXPECT_THAT(parse_error(base, {"=5"}), HasSubstr("expected key.path=value"));
  EXPECT_THAT(parse_error(base, {""}), HasSubstr("expected key.path=value"));
  EXPECT_THAT(parse_error(base, {"train=5"}), HasSubstr("train is a section; set one of its keys"));
  EXPECT_THAT(parse_error(base, {"optimizer.betas=[0.9"}),
              HasSubstr("is a bracket, brace or quote left open?"));
  EXPECT_THAT(parse_error(base, {"optimizer.betas=0.9,0.95"}),
              HasSubstr("expected a list of 2 values"));
  EXPECT_THAT(parse_error(base, {std::string("run.directory=a\nb")}),
              HasSubstr("control characters"));
  EXPECT_THAT(parse_error(base, {"run.directory=a\x01"}), HasSubstr("control character"));
}

TEST(ConfigOverride, DoesNotExcuseAnErrorInTheFile) {
  EXPECT_THAT(parse_error("train: {steps: abc}", {"train.steps=5"}),
              HasSubstr("a.yaml:1: train.steps"));
}

class SettledOverride : public testing::Test {
 protected:
  Config settled(const std::string& text, const std::vector<std::string>& overrides) {
    return resolve_config(parse_config("data: {path: x}\n" + text, "a.yaml", overrides, &where_),
                          {}, &where_);
  }
  std::string refused(const std::string& text, const std::vector<std::string>& overrides) {
    return config_error([&] { return settled(text, overrides); });
  }
  [[nodiscard]] const std::vector<std::string>& notices() const { return where_.notices; }

 private:
  Provenance where_;
};

TEST_F(SettledOverride, AWarmUpOfTheFileEndsWithTheStepsOfTheCommandLine) {
  const std::string file = "train: {steps: 100}\nlr_schedule: {warmup_steps: 50}\n";

  EXPECT_EQ(settled(file, {"train.steps=2"}).lr_schedule.warmup_steps, 2);
  EXPECT_THAT(notices(), ElementsAre("a.yaml:3: lr_schedule.warmup_steps: 50 is more than --set "
                                     "train.steps=2 and is shortened to 2"));
  EXPECT_EQ(settled(file, {"train.steps=50"}).lr_schedule.warmup_steps, 50);
  EXPECT_THAT(notices(), IsEmpty());
}

TEST_F(SettledOverride, AContradictionWithinOneSourceIsRefused) {
  EXPECT_THAT(refused("train: {steps: 9}\nlr_schedule: {warmup_steps: 50}\n", {}),
              HasSubstr("50 is more than train.steps = 9"));
  EXPECT_THAT(refused("train: {steps: 9}\n", {"lr_schedule.warmup_steps=50"}),
              HasSubstr("50 is more than train.steps = 9"));
  EXPECT_THAT(refused("train: {steps: 99}\n", {"train.steps=9", "lr_schedule.warmup_steps=50"}),
              HasSubstr("50 is more than train.steps = 9"));
  EXPECT_THAT(refused("optimizer: {name: sgd, betas: [0.5, 0.6]}\n", {}),
              HasSubstr("has no effect with optimizer.name: sgd"));
  EXPECT_THAT(refused("", {"optimizer.name=sgd", "optimizer.betas=[0.5, 0.6]"}),
              HasSubstr("has no effect with optimizer.name: sgd"));
}

TEST_F(SettledOverride, KeysOfAnotherOptimizerAreIgnoredWithANoticeEach) {
  const Config config = settled("optimizer: {name: adamw, betas: [0.9, 0.98], epsilon: 1e-6}\n",
                                {"optimizer.name=sgd"});

  EXPECT_EQ(config.optimizer, [] {
    OptimizerConfig plain;
    plain.name = OptimizerKind::sgd;
    return plain;
  }());
  EXPECT_THAT(notices(),
              ElementsAre("a.yaml:2: optimizer.betas: [0.9, 0.98] has no effect with --set "
                          "optimizer.name=sgd and is ignored",
                          "a.yaml:2: optimizer.epsilon: 1e-06 has no effect with --set "
                          "optimizer.name=sgd and is ignored"));
}

TEST_F(SettledOverride, SoAreKeysOfAnotherModelScheduleOrPrecision) {
  const std::string file =
      "model: {layers: 3}\nprecision: fp16\nloss_scale: {initial: 8}\n"
      "lr_schedule: {name: wsd, decay_fraction: 0.5}\ntrain: {eval_every: 5}\n";
  const Config config = settled(file, {"model.family=resnet", "precision=fp32",
                                       "lr_schedule.name=cosine", "data.validation_path="});

  EXPECT_EQ(config.model.as<GptOptions>().layers, GptOptions{}.layers);
  EXPECT_EQ(config.loss_scale, LossScaleConfig{});
  EXPECT_EQ(config.train.eval_every, 0);
  EXPECT_EQ(notices().size(), 4U);
}

TEST(ConfigProvenance, RemembersFileLineOptionAndDefault) {
  Provenance where;
  static_cast<void>(
      parse_config("train:\n  steps: 5\n  log_every: 3\n", "a.yaml", {"train.steps=7"}, &where));

  EXPECT_EQ(where.describe("train.log_every"), "a.yaml:3: train.log_every");
  EXPECT_EQ(where.describe("train.steps"), "--set train.steps=7");
  EXPECT_EQ(where.describe("run.seed"), "a.yaml: run.seed");
  EXPECT_EQ(Provenance{}.describe("run.seed"), "run.seed");
}

class ConfigDataPath : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(home_.path() / "shards");
    config_ = home_.write(
        "a.yaml", "data: {path: shards, validation_path: elsewhere/x}\nrun: {directory: shards}");
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  std::filesystem::path before_ = std::filesystem::current_path();
  TemporaryDirectory home_;
  TemporaryDirectory other_;
  std::string config_;
};

TEST_F(ConfigDataPath, IsTakenFromBesideTheConfigWhenTheCurrentDirectoryLacksIt) {
  std::filesystem::current_path(other_.path());

  const Config config = load_config(config_, {});

  EXPECT_EQ(config.data.path, (home_.path() / "shards").string());
  EXPECT_EQ(config.run.directory, "shards");
}

TEST_F(ConfigDataPath, PrefersTheCurrentDirectory) {
  std::filesystem::create_directories(other_.path() / "shards");
  std::filesystem::current_path(other_.path());

  EXPECT_EQ(load_config(config_, {}).data.path, "shards");
}

TEST_F(ConfigDataPath, StaysAsWrittenWhenFoundNowhereOrAbsolute) {
  std::filesystem::current_path(other_.path());

  EXPECT_EQ(load_config(config_, {}).data.validation_path, "elsewhere/x");
  EXPECT_EQ(load_config(config_, {"data.path=/no/such"}).data.path, "/no/such");
}

TEST_F(ConfigDataPath, OfInitialWeightsIsLookedForBesideTheConfigToo) {
  std::filesystem::current_path(other_.path());

  const Config config = load_config(config_, {"train.initial_weights=shards"});

  EXPECT_EQ(config.train.initial_weights, config.data.path);
  EXPECT_NE(config.train.initial_weights, "shards");
}

TEST_F(ConfigDataPath, IsAbsoluteInConfigsForOtherDirectories) {
  std::filesystem::current_path(home_.path());
  Provenance where;
  const Config config = load_config("a.yaml", {"train.steps=7", "run.directory=runs/a"}, &where);

  const std::string asked = requested_yaml(config, where);

  EXPECT_EQ(parse_config(asked, "asked.yaml", {}), with_absolute_paths(config));
  EXPECT_EQ(parse_config(asked, "asked.yaml", {}).data.path,
            (std::filesystem::current_path() / "shards").string());
  EXPECT_THAT(asked,
              AllOf(HasSubstr("  steps: 7\n"), Not(HasSubstr("seed")), Not(HasSubstr("parallel"))));
}

TEST_F(ConfigDataPath, WorksForAConfigNamedWithoutADirectory) {
  std::filesystem::current_path(home_.path());

  EXPECT_EQ(load_config("a.yaml", {}).data.path, "shards");
}

TEST(Lengths, TheLaterOfStepsAndEpochsAndOfWarmUpsCounts) {
  const std::string text = "data: {path: x}\ntrain: {steps: 200}\nlr_schedule: {warmup_steps: 9}\n";
  Provenance where;
  const Config steps = parse_config("data: {path: x}\ntrain: {epochs: 3}\n", "a.yaml",
                                    {"train.steps=20", "lr_schedule.warmup_fraction=0.1"}, &where);
  EXPECT_EQ(steps.train.epochs, 0);
  EXPECT_EQ(where.notices.size(), 1U);
  EXPECT_EQ(resolve_config(steps, {.ranks = 1}, &where).lr_schedule.warmup_steps, 2);
  EXPECT_EQ(parsed(text, {"lr_schedule.warmup_fraction=0.5"}).lr_schedule.warmup_steps, 0);
  for (const auto& [fraction, wanted] : {std::pair{"0.07", 7}, {"0.071", 8}, {"1", 100}})
    EXPECT_EQ(resolve_config(parsed("data: {path: x}\n",
                                    {"train.steps=100",
                                     std::string("lr_schedule.warmup_fraction=") + fraction}),
                             {.ranks = 1})
                  .lr_schedule.warmup_steps,
              wanted);
  EXPECT_EQ(parsed(text, {"train.epochs=2"}).train.epochs, 2);
  EXPECT_EQ(parsed(text, {"train.epochs=0"}).train.steps, 200);
}

TEST(Addresses, OtherThanOfIPv4AreRefused) {
  for (const std::string address : {"localhost", "::1", "300.1.1.1", "*"}) {
    const Config config = parsed("data: {path: x}\n", {"telemetry.prometheus_address=" + address});
    EXPECT_THAT(config_error([&] { return resolve_config(config, {.ranks = 1}); }),
                HasSubstr("telemetry.prometheus_address: " + address + " is not an IPv4 address"));
  }
}

TEST(Lengths, EpochsWithoutDataAndTwoWarmUpsAreRefused) {
  const auto refused = [](const std::vector<std::string>& set) {
    return config_error(
        [&] { return resolve_config(parsed("data: {path: x}\n", set), {.ranks = 1}); });
  };
  EXPECT_THAT(refused({"train.epochs=2"}), HasSubstr("train.epochs: 2 epochs"));
  EXPECT_THAT(refused({"lr_schedule.warmup_steps=5", "lr_schedule.warmup_fraction=0.1"}),
              HasSubstr("lr_schedule.warmup_fraction: 0.1 with lr_schedule.warmup_steps = 5"));
}

}  // namespace
}  // namespace trireme
