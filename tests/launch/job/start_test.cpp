// SPDX-License-Identifier: Apache-2.0
// Starts in a non-empty run directory, and the directories from which a config works.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class StartTest : public RunTest {
 protected:
  using Settings = std::vector<std::string>;

  [[nodiscard]] std::string run(const std::string& file = "") const {
    return directory() + "/run" + (file.empty() ? "" : "/" + file);
  }
  [[nodiscard]] bool has(const std::string& file) const { return fs::exists(run(file)); }

  static void expect_done(const CommandResult& result) {
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  static void expect_nothing_left(const CommandResult& result) {
    expect_done(result);
    EXPECT_THAT(result.output, HasSubstr("nothing is left to do"));
  }
  static void expect_refused(const CommandResult& result, const std::string& why) {
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(why), HasSubstr("--overwrite")));
  }
  // `trireme train ARGUMENTS` of the config in the fixture, in this test's run.
  [[nodiscard]] CommandResult train_with(const std::string& arguments) const {
    return trireme(fmt::format("train {}/gpt.yaml --set run.directory={} {}", data_directory(),
                               run(), arguments));
  }
};

TEST_F(StartTest, ARunThatSavedNothingBeginsAgainUnasked) {
  fs::create_directories(run("checkpoints/step_00000003.tmp"));
  write_file(run("config.yaml"), "run: {seed: 9}\n");
  write_file(run("metrics.jsonl"), "{\"step\":1,\"loss\":2.5,\"grad_norm\":1}\n");

  expect_done(train_gpt("run", 2, {"checkpoint.every_steps=3"}));

  EXPECT_EQ(steps_of("run").size(), 6U);
  EXPECT_FALSE(has("checkpoints/step_00000003.tmp"));
  EXPECT_TRUE(has("checkpoints/step_00000006"));
}

TEST_F(StartTest, MistakesAreFoundBeforeAnythingIsWritten) {
  for (const std::string& mistake :
       {"data.validation_path=" + data_directory() + "/images/validation",
        std::string("data.validation_path=nowhere"), std::string("train.initial_weights=nowhere"),
        std::string("model.vocabulary=100")}) {
    const CommandResult result = train_gpt("run", 0, {mistake, "checkpoint.every_steps=3"});

    EXPECT_NE(result.exit_code, 0) << mistake;
    EXPECT_FALSE(fs::exists(run())) << mistake << ": " << result.output;
  }
  expect_done(train_gpt("run", 0, {"checkpoint.every_steps=3"}));
  const std::string config = read_file(run("config.yaml")),
                    metrics = read_file(run("metrics.jsonl"));
  EXPECT_EQ(train_gpt("run", 2, {"model.hidden=64", "train.steps=8"}).exit_code, 4);
  EXPECT_EQ(read_file(run("config.yaml")), config);
  EXPECT_EQ(read_file(run("metrics.jsonl")), metrics);
  for (const auto& entry : fs::directory_iterator(run()))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("collectives")));
}

TEST_F(StartTest, OverwriteReplacesARunButNotInARestartOfTheSameJob) {
  expect_done(train_gpt("run", 0, {"checkpoint.every_steps=2"}));
  write_file(run("notes.txt"), "mine");
  const std::string before = weights_of("run");
  expect_refused(train_with("--set run.seed=8"), "run.seed");

  const std::string again = "--overwrite --set run.seed=8 --set checkpoint.every_steps=5";
  const CommandResult replaced = train_with(again);
  expect_done(replaced);
  EXPECT_THAT(replaced.output, HasSubstr("(--overwrite)"));
  EXPECT_EQ(steps_of("run").size(), 6U);
  EXPECT_FALSE(weights_of("run") == before);
  EXPECT_FALSE(has("checkpoints/step_00000004"));
  EXPECT_EQ(read_file(run("notes.txt")), "mine");

  for (const char* const name : {"SLURM_RESTART_COUNT", "TRIREME_EARLIER_STARTS"}) {
    ::setenv(name, "1", 1);
    expect_nothing_left(train_with(again));
    ::unsetenv(name);
  }
  EXPECT_EQ(train_with(again + " --fresh").exit_code, 2);
}

TEST_F(StartTest, AFinishedRunIsFinishedWithAnyNewestCheckpoint) {
  const Settings settings{"checkpoint.every_steps=4", "lr_schedule.name=constant"};
  expect_done(train_gpt("run", 0, settings));
  fs::remove_all(run("checkpoints/step_00000006"));
  const std::string weights = weights_of("run");

  expect_nothing_left(train_gpt("run", 2, settings));
  EXPECT_EQ(steps_of("run").size(), 6U);
  EXPECT_TRUE(weights_of("run") == weights);

  Settings more = settings;
  more.emplace_back("train.steps=8");
  const CommandResult longer = train_gpt("run", 0, more);
  expect_done(longer);
  EXPECT_THAT(longer.output, HasSubstr("its newest checkpoint is of step 4: steps 5 to 6 are"));
  EXPECT_TRUE(read_file(run("weights.step_00000006.safetensors")) == weights);
  expect_done(train_gpt("whole", 0, more));
  EXPECT_TRUE(weights_of("run") == weights_of("whole"));
}

TEST_F(StartTest, AFinishedRunWithoutCheckpointsIsNeitherTrainedAgainNorMistakenForAnother) {
  expect_done(train_gpt("run", 0));
  const std::string weights = weights_of("run");

  expect_nothing_left(train_gpt("run", 0));
  expect_nothing_left(train_gpt("run", 2, {"train.log_every=2"}));
  expect_refused(train_gpt("run", 0, {"run.seed=8"}), "run.seed: 8 (was 7)");
  expect_refused(train_gpt("run", 2, {"train.steps=8"}), "no checkpoint to go on from");
  EXPECT_TRUE(weights_of("run") == weights);
}

TEST_F(StartTest, ARunStoresTheRequestedConfigForAnyNumberOfRanks) {
  expect_done(train_gpt("run", 2, {"checkpoint.every_steps=3"}));
  EXPECT_THAT(read_file(run("config.yaml")), HasSubstr("\n  data: 2\n"));
  EXPECT_THAT(read_file(run("config.user.yaml")),
              AllOf(HasSubstr("every_steps: 3\n"), HasSubstr("directory: " + run()),
                    Not(HasSubstr("parallel:"))));

  const CommandResult one = trireme("train " + run() + " --set train.steps=7");
  expect_done(one);
  EXPECT_THAT(one.output, HasSubstr("data 1 x tensor 1"));
  const CommandResult resolved = trireme("train " + run("config.yaml") + " --set train.steps=8", 2);
  expect_done(resolved);
  EXPECT_THAT(resolved.output, AllOf(HasSubstr("reading " + run("config.user.yaml") + " instead"),
                                     HasSubstr("data 2 x tensor 1")));
  EXPECT_EQ(steps_of("run").size(), 8U);
  EXPECT_THAT(read_file(run("config.user.yaml")), Not(HasSubstr("parallel:")));

  const CommandResult none = trireme("train " + directory());
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("holds no run"));
}

// Relative to the config's directory, as everything in it is.
TEST_F(StartTest, ARunsConfigWorksFromAnyDirectory) {
  expect_done(train_gpt("source", 0));
  fs::create_directories(directory() + "/project/below");
  fs::create_symlink(data_directory() + "/text", directory() + "/project/text");
  fs::copy(directory() + "/source/weights.safetensors", directory() + "/project");
  std::string config = read_file(data_directory() + "/gpt.yaml");
  write_file(directory() + "/project/gpt.yaml", config);

  const CommandResult first = run_command(
      fmt::format("cd {}/project/below && {} train ../gpt.yaml --set run.directory=run --set "
                  "train.initial_weights=weights.safetensors --set checkpoint.every_steps=3",
                  directory(), TRIREME_BINARY));
  expect_done(first);
  EXPECT_THAT(first.output, HasSubstr("weights of "));

  const std::string place = directory() + "/project/below/run";
  for (const std::string& command : {"eval " + place, "train " + place + " --set train.steps=7",
                                     "train " + place + "/config.yaml --set train.steps=8"}) {
    const CommandResult elsewhere = run_command("cd / && " TRIREME_BINARY " " + command);
    EXPECT_EQ(elsewhere.exit_code, 0) << command << ": " << elsewhere.output;
    EXPECT_THAT(elsewhere.output, Not(HasSubstr("data.path:"))) << command;
  }
}

}  // namespace
}  // namespace trireme::test
