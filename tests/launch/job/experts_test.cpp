// SPDX-License-Identifier: Apache-2.0
// What a run of a model with experts tells of their load.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

using Settings = std::vector<std::string>;

class ExpertRunTest : public RunTest {
 protected:
  // 2 of 8 experts for each of 8 x 24 tokens, in both layers.
  CommandResult run(const std::string& name, int ranks, const Settings& more = {}) {
    Settings set{"model.family=llama",        "model.experts=8",
                 "model.experts_per_token=2", "model.expert_intermediate=16",
                 "parallel.tensor_blocks=2",  "reproducibility=layout"};
    set.insert(set.end(), more.begin(), more.end());
    CommandResult result = train_gpt(name, ranks, set);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result;
  }
  [[nodiscard]] std::vector<json> lines_with(const std::string& name, const char* key) const {
    std::istringstream lines(read_file(directory() + "/" + name + "/metrics.jsonl"));
    std::vector<json> found;
    for (std::string line; std::getline(lines, line);)
      if (json object = json::parse(line); object.contains(key)) found.push_back(object);
    return found;
  }
  [[nodiscard]] std::vector<std::string> loads_of(const std::string& name) const {
    std::vector<std::string> loads;
    for (const json& line : lines_with(name, "experts"))
      loads.push_back(fmt::format("{} {}", line["step"].dump(), line["experts"].dump()));
    return loads;
  }
  // Of one letter: every token chooses the same experts.
  Settings one_letter() {
    const std::string packed = directory() + "/letters";
    write_file(packed + ".txt", std::string(6000, 'a'));
    const CommandResult result =
        trireme(fmt::format("data pack-text --quiet --validation 0.1 --out {0} {0}.txt", packed));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return {"data.path=" + packed + "/train", "data.validation_path=" + packed + "/validation"};
  }
};

TEST_F(ExpertRunTest, LoadsAreExactAndTheSameOnEveryLayout) {
  run("one", 1);
  run("experts", 2, {"parallel.expert=2", "parallel.zero=3"});
  run("tensor", 2, {"parallel.tensor=2", "parallel.sequence=true"});
  run("stages", 4, {"parallel.pipeline=2", "parallel.expert=2", "train.recompute=full"});

  const std::vector<std::string> loads = loads_of("one");
  ASSERT_EQ(loads.size(), 6U);
  for (const json& line : lines_with("one", "experts")) {
    ASSERT_EQ(line["experts"].size(), 2U);
    for (const char* const layer : {"blocks.0.mlp", "blocks.1.mlp"})
      EXPECT_EQ(line["experts"][layer]["tokens"], 8 * 24);
  }
  EXPECT_EQ(loads_of("experts"), loads);
  EXPECT_EQ(loads_of("tensor"), loads);
  EXPECT_EQ(loads_of("stages"), loads);
}

TEST_F(ExpertRunTest, LoadsAreReadAtLoggedStepsAndTheLast) {
  const CommandResult result = run("run", 1, {"train.log_every=4"});

  const auto lines = lines_with("run", "experts");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["step"], 4);
  EXPECT_EQ(lines[1]["step"], 6);
  EXPECT_THAT(result.output, HasSubstr("x mean, "));
}

TEST_F(ExpertRunTest, ACollapsedLoadIsNamedAndReported) {
  const CommandResult result = run("run", 2, one_letter());

  EXPECT_THAT(result.output, HasSubstr("experts 4.00x mean, 6 dead"));
  const auto warnings = lines_with("run", "warning");
  ASSERT_EQ(warnings.size(), 2U);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(warnings[layer]["warning"], "unbalanced_experts");
    EXPECT_EQ(warnings[layer]["step"], 3);
    EXPECT_THAT(warnings[layer]["text"].get<std::string>(),
                AllOf(HasSubstr(fmt::format("blocks.{}.mlp", layer)),
                      HasSubstr("4.00 times the mean, and 6 of 8 experts have no token"),
                      HasSubstr("model.balance_loss")));
  }
  const CommandResult report = trireme("report " + directory() + "/run");
  EXPECT_THAT(report.output,
              AllOf(HasSubstr("the fullest of blocks.0.mlp has 4.00 times the mean load"),
                    HasSubstr("load of experts at step 6"), HasSubstr("unbalanced_experts")));
  EXPECT_THAT(read_file(directory() + "/run/report.html"),
              AllOf(HasSubstr("Load of experts at step 6"), HasSubstr("expert_max_over_mean")));
}

TEST_F(ExpertRunTest, EachBalanceLossEvensTheLoad) {
  // The mean of the last steps and both layers.
  const auto fullest = [&](const std::string& name, const Settings& more) {
    Settings set{"train.steps=40", "train.log_every=1"};
    set.insert(set.end(), more.begin(), more.end());
    run(name, 1, set);
    double sum = 0;
    for (const json& line : lines_with(name, "experts"))
      for (const json& layer : line["experts"])
        if (line["step"] > 30) sum += layer["max_over_mean"].get<double>();
    return sum / 20;
  };
  const double without = fullest("without", {});

  EXPECT_LT(fullest("batch", {"model.balance_loss=1"}), 0.8 * without);
  EXPECT_LT(fullest("sequence", {"model.sequence_balance_loss=1"}), 0.8 * without);
}

TEST_F(ExpertRunTest, PassesThatExceedTheBufferAreCountedAndNamed) {
  const Settings longer{"parallel.expert=2", "train.steps=20", "train.global_batch=4"};
  Settings little = longer, much = longer;
  little.emplace_back("parallel.expert_capacity_factor=1");
  much.emplace_back("parallel.expert_capacity_factor=4");

  const CommandResult result = run("little", 2, little);
  run("much", 2, much);

  double passes = 0, in_rounds = 0;
  for (const json& line : lines_with("little", "expert_passes")) {
    passes += line["expert_passes"].get<double>();
    in_rounds += line["expert_passes_in_rounds"].get<double>();
    EXPECT_GT(line["expert_rows_off_rank"], 0);
    EXPECT_LT(line["expert_rows_off_rank"], 1);
    EXPECT_EQ(line["expert_rows_off_node"], 0);
    EXPECT_GE(line["expert_rank_load"], 1);
  }
  EXPECT_EQ(passes, 20 * 2);  // a micro-batch of each rank, through 2 layers, together
  EXPECT_GT(in_rounds, 0.5 * passes);
  EXPECT_THAT(result.output, HasSubstr("parallel.expert_capacity_factor too small in "));
  for (const json& line : lines_with("much", "expert_passes"))
    EXPECT_EQ(line["expert_passes_in_rounds"], 0);
  EXPECT_EQ(weights_of("little"), weights_of("much"));
}

}  // namespace
}  // namespace trireme::test
