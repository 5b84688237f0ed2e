// SPDX-License-Identifier: Apache-2.0
// Runs that end at a target (train.stop_at).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launch/fixture/fields_fixture.h"
#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

std::string below(double value) {
  return fmt::format("\"train.stop_at={{metric: eval_loss, below: {}}}\"", value);
}

class StopTest : public LayoutTest {
 protected:
  static Settings settings(const Settings& more) {
    Settings all{"reproducibility=layout", "train.steps=12", "train.eval_every=2",
                 "parallel.tensor_blocks=2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Validation losses by step, of a run without a target.
  std::map<std::int64_t, double> evaluations() {
    const CommandResult result = train_gpt("whole", 1, settings({}));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::map<std::int64_t, double> losses;
    std::istringstream lines(read_file(directory() + "/whole/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains("validation_loss")) losses[object["step"]] = object["validation_loss"];
    }
    return losses;
  }
  // Between the losses after steps 4 and 6, which the run passes at step 6.
  std::string target() {
    const auto losses = evaluations();
    EXPECT_GT(losses.at(4), losses.at(6));
    return below(0.5 * (losses.at(4) + losses.at(6)));
  }
  [[nodiscard]] std::size_t steps(const std::string& name) const { return steps_of(name).size(); }
  [[nodiscard]] std::string file(const std::string& name) const { return directory() + "/" + name; }
};

TEST_F(StopTest, EveryLayoutEndsAtTheFirstEvaluationThatPassesWithTheSameWeights) {
  const std::string stop = target();
  std::string weights;
  for (const Layout& layout : {Layout{1, ""}, Layout{3, ""}, Layout{2, "tensor=2"},
                               Layout{2, "pipeline=2"}, Layout{4, "zero=2 pipeline=2"}}) {
    SCOPED_TRACE(layout.text);
    Settings set = settings({stop, "checkpoint.every_steps=4"});
    std::ranges::copy(settings_of(layout.text), std::back_inserter(set));
    const std::string name = name_of(layout);
    const CommandResult result = train_gpt(name, layout.ranks, set);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("stopped: eval_loss "), HasSubstr(" is below "),
                                     HasSubstr(" at step 6 (train.stop_at)"),
                                     HasSubstr("final loss"), HasSubstr("of step 6")));
    EXPECT_EQ(steps(name), 6U);
    EXPECT_TRUE(fs::exists(file(name + "/checkpoints/step_00000006")));
    if (weights.empty()) weights = weights_of(name);
    EXPECT_TRUE(weights_of(name) == weights);
    const CommandResult report = trireme("report " + file(name));
    EXPECT_THAT(report.output, AllOf(HasSubstr("finished"), HasSubstr("stopped: eval_loss "),
                                     HasSubstr("at step 6"), Not(HasSubstr(" left"))));
    EXPECT_EQ(trireme("replay " + file(name)).exit_code, 0);
  }
}

TEST_F(StopTest, AStoppedRunIsDoneUntilItsTargetIsTighter) {
  const auto losses = evaluations();
  const std::string stop = below(0.5 * (losses.at(4) + losses.at(6))),
                    tighter = below(0.5 * (losses.at(8) + losses.at(10)));
  const Settings saves{"checkpoint.every_steps=4"};
  ASSERT_EQ(train_gpt("run", 2, settings({stop, saves[0]})).exit_code, 0);

  const CommandResult again = train_gpt("run", 1, settings({stop, saves[0]}));
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, AllOf(HasSubstr("at step 6 (train.stop_at): nothing is left to do"),
                                  Not(HasSubstr("going on after step"))));
  EXPECT_EQ(trireme("train " + file("run")).exit_code, 0);
  EXPECT_EQ(steps("run"), 6U);

  const CommandResult further = train_gpt("run", 1, settings({tighter, saves[0]}));
  EXPECT_EQ(further.exit_code, 0) << further.output;
  EXPECT_THAT(further.output,
              AllOf(HasSubstr("going on after step 6"), HasSubstr("at step 10 (train.stop_at)")));
  EXPECT_EQ(steps("run"), 10U);
}

TEST_F(StopTest, OnlyWeightsAreAnEndToo) {
  const std::string stop = target();
  ASSERT_EQ(train_gpt("run", 1, settings({stop})).exit_code, 0);
  const CommandResult again = train_gpt("run", 1, settings({stop}));
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("nothing is left to do"));
  const CommandResult other = train_gpt("run", 1, settings({below(0)}));
  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("holds weights after 6 steps, but no checkpoint"));
}

TEST_F(StopTest, ARunThatWasKilledAroundItsEndStopsThereWithTheSameWeights) {
  const Settings set = settings({target(), "checkpoint.every_steps=4"});
  ASSERT_EQ(train_gpt("run", 2, set).exit_code, 0);
  const std::string weights = weights_of("run");

  // Between its last checkpoint and its weights.
  fs::remove(file("run/weights.safetensors"));
  const CommandResult written = train_gpt("run", 1, set);
  EXPECT_EQ(written.exit_code, 0) << written.output;
  EXPECT_THAT(written.output, HasSubstr("because an earlier start ended before it wrote them"));
  EXPECT_TRUE(weights_of("run") == weights);
  const CommandResult kept = train_gpt("run", 1, set);
  EXPECT_THAT(kept.output, AllOf(HasSubstr("nothing is left to do"), Not(HasSubstr("because"))));

  // Between the evaluation and its last checkpoint.
  fs::remove(file("run/weights.safetensors"));
  fs::remove_all(file("run/checkpoints/step_00000006"));
  const CommandResult trained = train_gpt("run", 1, set);
  EXPECT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_THAT(trained.output,
              AllOf(HasSubstr("going on after step 4"), HasSubstr("at step 6 (train.stop_at)")));
  EXPECT_TRUE(weights_of("run") == weights);
}

TEST_F(StopTest, ATargetThatIsNotReachedIsSaidAtTheLastStep) {
  const CommandResult result = train_gpt("run", 1, settings({below(0.001), "train.steps=4"}));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("is not below 0.001 at the last step"), Not(HasSubstr("stopped:"))));
}

TEST_F(StopTest, AccuracyAndErrorsAreTargetsToo) {
  const CommandResult images = train_resnet(
      "images", 2, {"train.eval_every=1", "\"train.stop_at={metric: accuracy, above: -1}\""});
  EXPECT_EQ(images.exit_code, 0) << images.output;
  EXPECT_THAT(images.output, HasSubstr("is above -1 at step 1 (train.stop_at)"));
  write_field_models(data_directory());
  for (const auto& [config, target] :
       {std::pair{"cosmoflow", "mae, below: 100"}, std::pair{"unet", "mean_iou, above: -1"},
        std::pair{"unet", "accuracy, above: -1"}}) {
    const CommandResult fields = train(fmt::format("{}.yaml", config), "fields", 2,
                                       {fmt::format("\"train.stop_at={{metric: {}}}\"", target)});
    EXPECT_EQ(fields.exit_code, 0) << fields.output;
    EXPECT_THAT(fields.output, ContainsRegex("stopped: (mae|mean_iou|accuracy) .* at step 2 "));
    EXPECT_EQ(steps("fields"), 2U);
    fs::remove_all(file("fields"));
  }
}

TEST_F(StopTest, ASupervisorTakesItAsDone) {
  std::string words;
  for (const std::string& set : settings({target(), "run.directory=" + file("run")}))
    words += " --set " + set;
  const CommandResult result =
      run_command(fmt::format("{0} supervise -- {1} -np 1 {0} train {2}/gpt.yaml{3}",
                              TRIREME_BINARY, TRIREME_MPIEXEC, data_directory(), words));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("at step 6 (train.stop_at)"));
}

}  // namespace
}  // namespace trireme::test
