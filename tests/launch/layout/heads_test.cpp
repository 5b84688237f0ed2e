// SPDX-License-Identifier: Apache-2.0
// The same for heads of samples and tokens over texts that are padded, their scores among the
// results; the best checkpoint, and the end of a run whose evaluations stay behind it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

constexpr const char* config_text = R"(
run: {{directory: runs/test, seed: 7}}
precision: fp32
model: {{{}, layers: 2, hidden: 32, heads: 4, context: 16, vocabulary: 256, init_std: 0.1, dropout: 0.1}}
data: {{path: {}/train, validation_path: {}/validation, workers: 1, prefetch: 2}}
train: {{steps: 3, global_batch: 16, micro_batch: 2, log_every: 1, clip_norm: 1.0}}
optimizer: {{name: adamw, learning_rate: 3e-3, weight_decay: 0.1}}
)";

// A text of `count` letters, of which the first says its class and the others are arbitrary.
std::string letters(int number, int count) {
  std::string text(1, static_cast<char>('a' + number % 3));
  for (int i = 1; i < count; ++i)
    text.push_back(static_cast<char>('d' + (number * 7 + i * i) % 20));
  return text;
}

class HeadsLayout : public LayoutTest {
 protected:
  // Of 72 texts, 16 of them for validation; their lengths are 1 to 16.
  static void SetUpTestSuite() {
    LayoutTest::SetUpTestSuite();
    const char* const targets[] = {"class", "values", "labels", "token_classes"};
    for (const char* const kind : targets) {
      std::string lines;
      for (int i = 0; i < 72; ++i)
        lines += line(kind, i) + "\n";
      write_file(fmt::format("{}/{}.jsonl", data_directory(), kind), lines);
      const CommandResult packed = trireme(
          fmt::format("data pack-text --quiet --targets {0} --longest 16 --validation 0.22 --out "
                      "{1}/texts_{0} {1}/{0}.jsonl",
                      kind, data_directory()));
      ASSERT_EQ(packed.exit_code, 0) << packed.output;
    }
  }
  static std::string line(std::string_view kind, int i) {
    const std::string text = letters(i, 1 + i * 5 % 16);
    if (kind == "class") return fmt::format(R"({{"text": "{}", "label": {}}})", text, i % 3);
    if (kind == "values")
      return fmt::format(R"({{"text": "{}", "label": [{}, {}]}})", text, i % 3, i % 5 - 2);
    if (kind == "labels")
      return fmt::format(R"({{"text": "{}", "label": {}}})", text,
                         i % 3 == 0   ? R"(["x"])"
                         : i % 3 == 1 ? R"(["x", "y"])"
                                      : R"(["z"])");
    return fmt::format(R"({{"tokens": ["{}", "{}"], "label": [{}, {}]}})", text.substr(0, 3),
                       text.substr(text.size() - 1), i % 3, i % 2 == 0 ? -100 : 3);
  }
  static Run run(const std::string& model, const std::string& kind, Settings more = {}) {
    const std::string name = fmt::format("{}_{}.yaml", model.substr(0, model.find(',')), kind);
    write_file(data_directory() + "/" + name,
               fmt::format(config_text, "family: " + model, "texts_" + kind, "texts_" + kind));
    more.emplace_back("parallel.bucket_megabytes=0.02");
    return {.config = name, .set = more, .steps = 3};
  }
  [[nodiscard]] std::vector<nlohmann::json> evaluations(const std::string& name) const {
    std::istringstream lines(read_file(directory() + "/" + name + "/metrics.jsonl"));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(lines, line);)
      if (auto object = nlohmann::json::parse(line); object.contains("validation_loss"))
        all.push_back(std::move(object));
    return all;
  }
};

TEST_F(HeadsLayout, OfSamplesOfBertChangesNoBit) {
  expect_same_bits(run("bert, head: classes, classes: 3", "class", {"parallel.tensor_blocks=4"}),
                   {{2, "data=2 zero=1"},
                    {4, "tensor=4 sequence=true recompute=full"},
                    {2, "pipeline=2 schedule=zero-bubble"},
                    {4, "data=2 tensor=2 zero=3"}});
}

TEST_F(HeadsLayout, OfTokensOfBertChangesNoBit) {
  expect_same_bits(
      run("bert, head: token_classes, classes: 4", "token_classes", {"parallel.tensor_blocks=4"}),
      {{4, "data=4 zero=2"}, {4, "tensor=2 pipeline=2"}});
}

TEST_F(HeadsLayout, OfLabelsOfBertChangesNoBit) {
  expect_same_bits(run("bert, head: labels, classes: 3", "labels"),
                   {{2, "data=2 zero=3"}, {2, "pipeline=2 schedule=1f1b"}});
}

TEST_F(HeadsLayout, OfValuesOfLlamaChangesNoBit) {
  expect_same_bits(run("llama, head: values, targets: 2", "values",
                       {"train.loss=huber", "parallel.tensor_blocks=4"}),
                   {{4, "data=4 zero=1"}, {4, "tensor=4 sequence=true"}, {2, "pipeline=2"}});
}

TEST_F(HeadsLayout, EvaluationsHaveTheScoresOfTheHead) {
  const auto of = [&](const std::string& model, const std::string& kind) {
    const CommandResult result = train(run(model, kind).config, kind, 2, {});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return evaluations(kind).back();
  };
  const auto classes = of("llama, head: classes, classes: 3", "class");
  const auto values = of("bert, head: values, targets: 2", "values");
  const auto labels = of("llama, head: labels, classes: 3", "labels");
  const auto tokens = of("llama, head: token_classes, classes: 4", "token_classes");

  EXPECT_TRUE(classes.contains("accuracy") && classes.contains("f1") && !classes.contains("auc"));
  EXPECT_TRUE(values.contains("mae") && values.contains("r2") && !values.contains("f1"));
  for (const char* const key : {"accuracy", "f1", "f1_micro", "auc"})
    EXPECT_TRUE(labels.contains(key)) << key;
  EXPECT_TRUE(tokens.contains("accuracy") && tokens.contains("f1"));
}

// Train.patience ends a run whose rate is zero after the first and two more evaluations.
TEST_F(HeadsLayout, KeepsTheBestCheckpointAndStopsWithoutABetterOne) {
  const Run still = run("bert, head: classes, classes: 3", "class",
                        {"train.eval_every=2", "train.steps=20", "optimizer.learning_rate=0",
                         "optimizer.weight_decay=0", "checkpoint.keep_best=f1", "train.patience=2",
                         "checkpoint.every_steps=1", "checkpoint.keep=1"});
  const CommandResult first = train(still.config, "still", 1, still.set);
  const CommandResult again = train(still.config, "still", 2, still.set);
  const std::string run_path = directory() + "/still";

  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_EQ(evaluations("still").size(), 3U);
  EXPECT_THAT(first.output, HasSubstr("at step 6 (train.patience)"));
  EXPECT_TRUE(std::filesystem::exists(run_path + "/checkpoints/step_00000002")) << first.output;
  EXPECT_THAT(again.output, HasSubstr("nothing is left to do"));
  const CommandResult best = trireme("eval " + run_path + " --best");
  EXPECT_EQ(best.exit_code, 0) << best.output;
  EXPECT_THAT(best.output, HasSubstr("step_00000002"));
  std::filesystem::remove_all(run_path + "/checkpoints/step_00000002");
  const CommandResult gone = trireme("eval " + run_path + " --best");
  EXPECT_EQ(gone.exit_code, 4) << gone.output;
  EXPECT_THAT(gone.output,
              testing::AllOf(HasSubstr("step_00000002 is missing"), HasSubstr("step_00000006")));
}

TEST_F(HeadsLayout, SavesTheBestStepOnceIfItIsSavedAnyway) {
  const Run both = run("bert, head: classes, classes: 3", "class",
                       {"train.eval_every=2", "checkpoint.every_steps=2", "train.steps=6",
                        "checkpoint.keep_best=eval_loss", "checkpoint.keep=9"});
  const CommandResult result = train(both.config, "both", 1, both.set);

  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (int step = 1; step <= 6; ++step)
    EXPECT_EQ(
        std::filesystem::exists(fmt::format("{}/both/checkpoints/step_{:08}", directory(), step)),
        step % 2 == 0)
        << step;
}

// A run that is interrupted between evaluations judges as one that is not.
TEST_F(HeadsLayout, ResumesTheSearchForTheBestOnOtherRanks) {
  Run searched = run("bert, head: classes, classes: 3", "class",
                     {"train.eval_every=1", "train.steps=6", "checkpoint.keep_best=eval_loss",
                      "train.patience=3", "checkpoint.every_steps=1", "reproducibility=layout"});
  const CommandResult whole = train(searched.config, "whole", 1, searched.set);
  searched.set.emplace_back("run.directory=" + directory() + "/parts");
  const std::string command = fmt::format("train {}/{} ", data_directory(), searched.config);
  std::string settings;
  for (const std::string& set : searched.set)
    settings += " --set " + set;

  const CommandResult begun = trireme(command + "--until 3" + settings, 2);
  const CommandResult ended = trireme(command + settings, 1);

  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_EQ(begun.exit_code, 0) << begun.output;
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(weights_of("whole"), weights_of("parts"));
  const auto best = [&](const std::string& name) {
    const CommandResult result = trireme("eval " + directory() + "/" + name + " --best");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output.substr(result.output.find("step_"));
  };
  EXPECT_EQ(best("whole"), best("parts"));
  // Of the newest one, which was the best, an older one's record knows nothing.
  const std::string last = directory() + "/whole/checkpoints/step_00000006";
  if (best("whole").starts_with("step_00000006")) {
    std::filesystem::remove_all(last);
    const CommandResult gone = trireme("eval " + directory() + "/whole --best");
    EXPECT_EQ(gone.exit_code, 4) << gone.output;
    EXPECT_THAT(gone.output, HasSubstr("step_00000006 is missing"));
  }
}

TEST_F(HeadsLayout, RefusesWhatAHeadCannotHonour) {
  const auto refused = [&](const std::string& model, const std::string& kind, Settings more,
                           int ranks = 1) {
    const CommandResult result = train(run(model, kind).config, "refused", ranks, more);
    EXPECT_NE(result.exit_code, 0) << result.output;
    return result.output;
  };
  const std::string classes = "llama, head: classes, classes: 3";

  EXPECT_THAT(refused(classes, "class", {"data.documents=separate"}), HasSubstr("data.documents"));
  EXPECT_THAT(refused(classes, "class", {"parallel.context=2"}, 2), HasSubstr("parallel.context"));
  EXPECT_THAT(refused(classes, "class", {"model.classes=2"}), HasSubstr("at least 3"));
  EXPECT_THAT(refused(classes, "values", {}), HasSubstr("texts with values"));
  EXPECT_THAT(refused(classes, "class", {"train.patience=2"}), HasSubstr("checkpoint.keep_best"));
  EXPECT_THAT(refused(classes, "class", {"checkpoint.keep_best=r2"}), HasSubstr("accuracy or f1"));
  EXPECT_THAT(refused("bert, head: labels, classes: 3", "labels", {"train.loss=mse"}),
              HasSubstr("binary cross-entropy"));
}

}  // namespace
}  // namespace trireme::test
