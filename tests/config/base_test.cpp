// SPDX-License-Identifier: Apache-2.0
// `base: FILE`: configs that extend others.
#include <gmock/gmock.h>

#include "tests/config/support.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

class ConfigBase : public testing::Test {
 protected:
  std::string refused(const std::string& file) {
    return config_error([&] { return load_config(file, {}); });
  }
  Config load(const std::string& file, const std::vector<std::string>& overrides = {}) {
    return load_config(file, overrides, &where_);
  }
  std::string at(const std::string& name) const { return (home_.path() / name).string(); }

  TemporaryDirectory home_;
  Provenance where_;
};

TEST_F(ConfigBase, FillsMissingKeysAndTheCommandLineOverridesBoth) {
  home_.write("deep.yaml",
              "run: {seed: 1}\ntrain: {steps: 10, log_every: 2}\ndata: {mean: [1, 2]}\n");
  home_.write("middle.yaml", "base: deep.yaml\ntrain:\n  steps: 20\n");
  const std::string top =
      home_.write("top.yaml", "run: {seed: 3}\nbase: middle.yaml\ndata: {mean: [5]}\n");

  const Config config = load(top, {"train.log_every=7"});

  EXPECT_EQ(config.run.seed, 3U);
  EXPECT_EQ(config.train.steps, 20);
  EXPECT_EQ(config.train.log_every, 7);
  EXPECT_THAT(config.data.mean, ElementsAre(5));
  EXPECT_EQ(where_.describe("train.steps"), at("middle.yaml") + ":3: train.steps");
  EXPECT_EQ(where_.describe("run.seed"), top + ":1: run.seed");
  EXPECT_EQ(where_.describe("train.clip_norm"), top + ": train.clip_norm");
}

TEST_F(ConfigBase, IsFoundBesideTheFileThatNamesItAsIsTheDataThatItNames) {
  fs::create_directories(home_.path() / "shared" / "shards");
  home_.write("shared/base.yaml", "data: {path: shards}\n");
  fs::create_directories(home_.path() / "mine");
  const std::string file = home_.write("mine/a.yaml", "base: ../shared/base.yaml\n");

  EXPECT_EQ(load(file).data.path, at("shared/shards"));
}

TEST_F(ConfigBase, CyclesAreRefusedWithThePath) {
  const std::string a = home_.write("a.yaml", "run: {seed: 1}\nbase: b.yaml\n");
  const std::string b = home_.write("b.yaml", "base: c.yaml\n");
  const std::string c = home_.write("c.yaml", "base: b.yaml\n");
  const std::string self = home_.write("self.yaml", "base: self.yaml\n");
  fs::create_symlink("self.yaml", home_.path() / "other.yaml");
  const std::string linked = home_.write("linked.yaml", "base: other2.yaml\n");
  fs::create_symlink("linked.yaml", home_.path() / "other2.yaml");

  EXPECT_THAT(refused(a),
              HasSubstr(c + ":1: base: the bases form a cycle: " + b + " -> " + c + " -> " + b));
  EXPECT_THAT(refused(self),
              HasSubstr(self + ":1: base: the bases form a cycle: " + self + " -> " + self));
  EXPECT_THAT(refused(linked), HasSubstr("the bases form a cycle"));
}

TEST_F(ConfigBase, ThatIsNoFileIsRefusedByFileAndLine) {
  fs::create_directories(home_.path() / "directory");
  for (const std::string written : {"missing.yaml", "directory"}) {
    const std::string file = home_.write("a.yaml", "run: {seed: 1}\nbase: " + written + "\n");
    EXPECT_THAT(refused(file),
                HasSubstr(file + ":2: base: " + written + ": there is no file " + at(written)));
  }
  for (const std::string written : {"[a.yaml, b.yaml]", "{a: b}", "", "\"\""}) {
    const std::string file = home_.write("a.yaml", "base: " + written + "\n");
    EXPECT_THAT(refused(file),
                HasSubstr(file + ":1: base: expected the name of another config file"));
  }
}

TEST_F(ConfigBase, ThatIsWrongIsBlamedInItsOwnFile) {
  const std::string base = home_.write("base.yaml", "train:\n  stepz: 5\n");
  const std::string file = home_.write("a.yaml", "base: base.yaml\ntrain: {steps: 5}\n");

  EXPECT_THAT(refused(file), HasSubstr(base + ":2: train.stepz: unknown key"));
}

TEST_F(ConfigBase, MayHaveABaseButNotWithoutEnd) {
  home_.write("0.yaml", "run: {seed: 9}\n");
  for (int i = 1; i <= 17; ++i)
    home_.write(fmt::format("{}.yaml", i), fmt::format("base: {}.yaml\n", i - 1));

  EXPECT_EQ(load(at("16.yaml")).run.seed, 9U);
  EXPECT_THAT(refused(at("17.yaml")), HasSubstr("more than 16 files"));
}

TEST_F(ConfigBase, MeaninglessKeysAreDroppedWithANoticeEach) {
  const std::string base =
      home_.write("base.yaml",
                  "optimizer: {name: adamw, betas: [0.5, 0.6]}\ntrain: {steps: 100}\n"
                  "lr_schedule: {warmup_steps: 50}\n");
  const std::string file =
      home_.write("a.yaml", "base: base.yaml\noptimizer: {name: sgd}\ntrain: {steps: 20}\n");

  const Config config = load(file);

  EXPECT_EQ(config.optimizer.betas, OptimizerConfig{}.betas);
  EXPECT_EQ(config.lr_schedule.warmup_steps, 20);
  EXPECT_THAT(where_.notices,
              ElementsAre(HasSubstr(base + ":1: optimizer.betas: [0.5, 0.6] has no effect with " +
                                    file + ":2: optimizer.name: sgd"),
                          HasSubstr("50 is more than " + file +
                                    ":3: train.steps: 20 and is shortened to 20")));
  const std::string own = home_.write(
      "b.yaml",
      "base: base.yaml\ndata: {path: x}\ntrain: {steps: 9}\nlr_schedule: {warmup_steps: 50}\n");
  EXPECT_THAT(config_error([&] { return resolve_config(load_config(own, {}), {}); }),
              HasSubstr("50 is more than"));
}

TEST_F(ConfigBase, BelongsToFilesNotToTextOrTheCommandLine) {
  EXPECT_THAT(parse_error("base: a.yaml\n"),
              HasSubstr("a.yaml:1: base: only a config file can have a base"));
  EXPECT_THAT(parse_error("run: {seed: 1}\n", {"base=a.yaml"}), HasSubstr("unknown key base"));
}

TEST_F(ConfigBase, ThePrintedConfigSaysWhereEachValueIsFromAndReadsBackEqual) {
  const std::string base = home_.write("base.yaml", "train:\n  steps: 30\n");
  const std::string file = home_.write("a.yaml", "base: base.yaml\nrun: {seed: 4}\n");
  const Config config = load(file, {"train.log_every=3"});

  const std::string yaml = to_yaml(config, &where_);

  EXPECT_THAT(yaml, HasSubstr("  steps: 30  # " + base + ":2\n"));
  EXPECT_THAT(yaml, HasSubstr("  seed: 4  # " + file + ":2\n"));
  EXPECT_THAT(yaml, HasSubstr("  log_every: 3  # --set train.log_every=3\n"));
  EXPECT_THAT(yaml, HasSubstr("  clip_norm: 1\n"));
  EXPECT_EQ(to_yaml(parsed(yaml)), to_yaml(config));
}

}  // namespace
}  // namespace trireme
