// SPDX-License-Identifier: Apache-2.0
// Model families as runtime/config sees them, by two families of this test.
#include <gmock/gmock.h>

#include "models/registry.h"
#include "runtime/config/key_table.h"
#include "runtime/config/rules/rules.h"
#include "runtime/config/value.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct First {
  std::int64_t layers = 3;
  bool odd = false;
  friend bool operator==(const First&, const First&) = default;
};
struct Second {
  std::int64_t layers = 3;
  friend bool operator==(const Second&, const Second&) = default;
};

TargetSpec one(const ModelConfig& /*model*/) {
  return {TargetKind::label, Shape{}, 2};
}

config::ModelFamily first() {
  return {.name = "first",
          .splits_tensor = true,
          .fields =
              [] {
                return std::vector{
                    TRIREME_MODEL_FIELD(First, layers, (config::IntegerRange{1, 9}), "layers"),
                    TRIREME_MODEL_FIELD(First, odd, config::Free{}, "refuses an even number")};
              },
          .check =
              [](const config::Subject& subject) {
                const auto& model = subject.config.model.as<First>();
                if (model.odd && model.layers % 2 == 0)
                  config::refuse(subject, "model.layers", "{} is even; use another", model.layers);
              },
          .limits =
              [](const Config& config) {
                ModelLimits limits;
                limits.layers = config.model.as<First>().layers;
                limits.tensor = {{6, "model.size"}};
                return limits;
              },
          .targets = one};
}

config::ModelFamily second() {
  return {.name = "second",
          .input = config::Input::images,
          .fields =
              [] {
                return std::vector{
                    TRIREME_MODEL_FIELD(Second, layers, (config::IntegerRange{1, 9}), "layers")};
              },
          .check = [](const config::Subject&) {},
          .limits =
              [](const Config& config) {
                ModelLimits limits;
                limits.layers = config.model.as<Second>().layers;
                return limits;
              },
          .targets = one};
}

class ModelFamilies : public testing::Test {
 protected:
  [[nodiscard]] Config read(const std::string& text,
                            const std::vector<std::string>& overrides = {}) {
    return parse_config(keys_, text, "a.yaml", overrides, &where_);
  }
  [[nodiscard]] std::string refused(const std::vector<std::string>& overrides, int ranks = 1) {
    return config_error([&] {
      return resolve_config(keys_, read("data: {path: x}\n", overrides), {.ranks = ranks}, &where_,
                            Purpose::train);
    });
  }

  config::KeyTable keys_{{first(), second()}};
  Provenance where_;
};

TEST_F(ModelFamilies, FillTheModelSectionAndTheFirstIsTheDefault) {
  EXPECT_EQ(read("run: {}").model.family, "first");
  EXPECT_THAT(keys_.names_in("model"), ElementsAre("family", "layers", "odd"));
  EXPECT_EQ(config_error([&] { return read("model: {family: third}"); }),
            "a.yaml:1: model.family: expected one of first, second, found the text \"third\"");
  EXPECT_THAT(field_table_markdown(keys_),
              HasSubstr("|`model.layers`|3|1 to 9|layers (first, second)|"));
}

struct Wide {
  std::int64_t layers = 5;
  friend bool operator==(const Wide&, const Wide&) = default;
};

// The family may be named after the key, or on the command line.
TEST(SharedKeys, HaveTheLimitsTextAndDefaultOfTheirFamily) {
  config::ModelFamily wide = second();
  wide.name = "wide";
  wide.fields = [] {
    return std::vector{TRIREME_MODEL_FIELD(Wide, layers, (config::IntegerRange{4, 12}), "stages")};
  };
  const config::KeyTable keys({first(), wide});
  const auto layers = [&](const std::string& model, const std::vector<std::string>& overrides) {
    return parse_config(keys, "model: " + model, "a.yaml", overrides, nullptr);
  };

  EXPECT_EQ(layers("{layers: 12, family: wide}", {}).model.as<Wide>().layers, 12);
  EXPECT_EQ(layers("{layers: 12}", {"model.family=wide"}).model.as<Wide>().layers, 12);
  EXPECT_EQ(layers("{layers: 3}", {}).model.as<First>().layers, 3);
  EXPECT_EQ(layers("{layers: 12}", {"model.layers=2"}).model.as<First>().layers, 2);
  EXPECT_THAT(config_error([&] { return layers("{layers: 12}", {}); }),
              AllOf(HasSubstr("a.yaml:1: model.layers"), HasSubstr("1 to 9")));
  EXPECT_THAT(config_error([&] { return layers("{family: wide, layers: 3}", {}); }),
              HasSubstr("4 to 12"));
  EXPECT_THAT(config_error([&] { return layers("{family: wide}", {"model.layers=13"}); }),
              AllOf(HasSubstr("--set model.layers=13"), HasSubstr("4 to 12")));
  Config unset = layers("{family: wide}", {});
  EXPECT_THAT(to_yaml(keys, unset), HasSubstr("layers: 5"));
  EXPECT_THAT(field_table_markdown(keys),
              HasSubstr("|3; wide: 5|1 to 9; wide: 4 to 12|layers (first, wide); wide: stages|"));
}

TEST_F(ModelFamilies, ShareAKeyAndEachHasItInItsOwnOptions) {
  const Config config = read("model: {layers: 5, family: second}");

  EXPECT_EQ(config.model.as<Second>().layers, 5);
  EXPECT_THAT(to_yaml(keys_, config), HasSubstr("  layers: 5\n"));
  EXPECT_EQ(read(to_yaml(keys_, config)), config);
  EXPECT_FALSE(read("model: {layers: 4, family: second}") == config);
}

TEST_F(ModelFamilies, CheckTheirKeysAndTheirLimitsReachTheRules) {
  EXPECT_EQ(refused({"model.odd=true", "model.layers=2"}),
            "--set model.layers=2: 2 is even; use another");
  EXPECT_EQ(refused({"model.family=second", "model.odd=true"}),
            "--set model.odd=true: true has no effect with model.family: second, only with first; "
            "remove it or use false");
  EXPECT_EQ(refused({"parallel.tensor=4"}, 4),
            "--set parallel.tensor=4: 4 does not divide model.size = 6; use 1, 2, 3 or 6");
  EXPECT_THAT(refused({"parallel.pipeline=4"}, 4), HasSubstr("4 stages for a model of 3 layers"));
  EXPECT_THAT(refused({"model.family=second", "parallel.sequence=true"}),
              HasSubstr("only with first"));
  EXPECT_THAT(refused({"data.flip=true"}), HasSubstr("only with second"));
  EXPECT_THAT(refused({"precision=fp8"}), HasSubstr("model.family: first has none"));
}

TEST_F(ModelFamilies, OfVolumesHaveAxesAndCropsWithDepth) {
  config::ModelFamily volumes = second();
  volumes.volumes = [](const ModelConfig&) { return true; };
  const config::KeyTable of_images({second()}), of_volumes({volumes});
  const auto resolved = [&](const config::KeyTable& keys, const std::string& more) {
    return resolve_config(
        keys,
        parse_config(keys, "data: {files: [a], inputs: [x], target: y, " + more + "}", "a.yaml", {},
                     &where_),
        {}, &where_, Purpose::train);
  };
  EXPECT_EQ(resolved(of_volumes, "axes: NTDHWC, samples: axis, crop: [0, 0, 0, 4, 4, 4]").data.crop,
            (std::vector<std::int64_t>{0, 0, 0, 4, 4, 4}));
  const auto refused = [&](const config::KeyTable& keys, const std::string& more) {
    return config_error([&] { return resolved(keys, more); });
  };
  EXPECT_THAT(refused(of_volumes, "axes: HWC"),
              HasSubstr("HWC has no D, but model.family: second"));
  EXPECT_THAT(refused(of_volumes, "axes: DHWC, crop: [0, 0, 4, 4]"),
              HasSubstr("data.crop: expected front, top, left, depth"));
  EXPECT_THAT(refused(of_volumes, "axes: DHWC, crop: [0, 0, 0, 4, 0, 4]"),
              HasSubstr("the last three above 0"));
  EXPECT_THAT(refused(of_images, "axes: HWC, crop: [0, 0, 0, 4, 4, 4]"),
              HasSubstr("data.crop: expected top, left, height and width"));
  EXPECT_THAT(refused(of_images, "axes: TDHW"), HasSubstr("is not an order of axes"));
}

TEST(LossOfATask, IsForTheTargetsOfTheFamily) {
  config::ModelFamily valued = second();
  valued.targets = [](const ModelConfig&) { return TargetSpec{TargetKind::values, Shape{4}, 0}; };
  const config::KeyTable keys({first(), valued});
  const auto resolved = [&](const std::vector<std::string>& overrides) {
    Provenance where;
    const Config config = parse_config(keys, "data: {path: x}\n", "a.yaml", overrides, &where);
    return resolve_config(keys, config, {.ranks = 1}, &where, Purpose::train);
  };
  const auto refused = [&](const std::vector<std::string>& overrides) {
    return config_error([&] { return resolved(overrides); });
  };
  const std::string of_values = "model.family=second";

  EXPECT_EQ(refused({"train.loss=mae"}),
            "--set train.loss=mae: mae is for models that predict values, and model.family: first "
            "predicts classes by cross-entropy; use auto");
  EXPECT_EQ(refused({of_values, "train.loss=dice_cross_entropy"}),
            "--set train.loss=dice_cross_entropy: dice_cross_entropy is for models that classify "
            "pixels, and model.family: second predicts values; use auto, mse, mae or huber");
  EXPECT_THAT(refused({"train.loss=dice_cross_entropy"}), HasSubstr("by cross-entropy; use auto"));
  EXPECT_EQ(refused({of_values, "train.label_smoothing=0.1"}),
            "--set train.label_smoothing=0.1: 0.1 is for models that predict classes, and "
            "model.family: second predicts values; use 0");
  EXPECT_THAT(refused({of_values, "train.z_loss=0.1"}), HasSubstr("use 0"));
  EXPECT_THAT(refused({of_values, "train.huber_delta=2"}), HasSubstr("only with huber"));
  EXPECT_EQ(resolved({of_values, "train.loss=huber", "train.huber_delta=2"}).train.huber_delta, 2);
  EXPECT_EQ(resolved({of_values}).train.loss, LossChoice::automatic);
}

TEST(BuiltFamilies, AgreeWithTheirLayers) {
  for (const Family& family : families()) {
    Config config = default_config();
    config.model.family = family.keys.name;
    const ModelLimits limits = family.keys.limits(config);

    EXPECT_EQ(limits.layers, static_cast<std::int64_t>(make_chain(config).size()));
    EXPECT_EQ(!limits.tensor.empty(), family.keys.splits_tensor) << family.keys.name;
    EXPECT_EQ(family.keys.input, traits_of(config.model).input) << family.keys.name;
    const ModelTraits traits = traits_of(config.model);
    const bool tokens = traits.targets.kind == TargetKind::tokens;
    EXPECT_EQ(tokens, traits.input == InputKind::tokens);
    EXPECT_EQ(traits.targets.classes, tokens ? traits.vocabulary : traits.classes);
    EXPECT_EQ(traits.items_per_sample(), tokens ? traits.context : 1);
    if (traits.targets.kind == TargetKind::label) {
      EXPECT_EQ(traits.targets_per_sample(), 1);
    }
  }
}

}  // namespace
}  // namespace trireme
