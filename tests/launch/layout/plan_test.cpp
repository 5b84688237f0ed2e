// SPDX-License-Identifier: Apache-2.0
// Memory predicted by `trireme plan`, and measured in runs of the same layouts.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/launch/fixture/fields_fixture.h"
#include "tests/launch/fixture/hardware_text.h"
#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Bytes or MiB by role; "total" is the sum.
using ByRole = std::map<std::string, double>;
constexpr double mib = 1 << 20;

class LayoutPlan : public LayoutTest {
 protected:
  static void SetUpTestSuite() {
    LayoutTest::SetUpTestSuite();
    write_file(hardware(), small_machine);
    write_field_models(data_directory());
  }
  LayoutPlan() { ::setenv("TRIREME_LOG", "debug", 1); }
  static std::string hardware() { return data_directory() + "/machine.yaml"; }

  static Run gpt(Settings more = {}) {
    Settings set{"model.heads=4", "train.global_batch=16", "train.steps=1",
                 "lr_schedule.warmup_steps=0", "parallel.bucket_megabytes=0.02"};
    set.insert(set.end(), more.begin(), more.end());
    return {.config = "gpt.yaml", .set = set, .steps = 1};
  }
  static Run resnet(Settings more = {}) {
    more.emplace_back("train.steps=1");
    more.emplace_back("parallel.bucket_megabytes=0.01");
    return {.config = "resnet.yaml", .set = more, .steps = 1};
  }

  // In MiB, for the fullest rank per role, as the run logs it at its end.
  ByRole measured(const Run& run, const Layout& layout) {
    const std::string output = train_layout(run, layout).output;
    const std::string key = "predicted / measured: ";
    const auto at = output.find(key);
    EXPECT_NE(at, std::string::npos) << output;
    if (at == std::string::npos) return {};
    std::istringstream parts(
        "total " + output.substr(at + key.size(), output.find('\n', at) - at - key.size()));
    ByRole found;
    for (std::string part; std::getline(parts, part, ',');) {
      const auto number = part.find_first_of("0123456789");
      std::string role = part.substr(0, number - 1);
      if (role.front() == ' ') role.erase(0, 1);
      EXPECT_EQ(std::sscanf(part.c_str() + number, "%*f / %lf MiB", &found[role]), 1) << part;
    }
    return found;
  }

  // The prediction of `trireme plan`, without ranks.
  ByRole planned(const Run& run, const Layout& layout) {
    Settings set = run.set;
    std::ranges::copy(settings_of(layout.text), std::back_inserter(set));
    const std::string json = directory() + "/plan.json";
    const CommandResult result = trireme(
        fmt::format("plan {}/{} --ranks {} --hardware {} --json {} --set {}", data_directory(),
                    run.config, layout.ranks, hardware(), json, fmt::join(set, " --set ")));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    ByRole most;
    for (const auto& stage : nlohmann::json::parse(read_file(json))["memory"]["stages"]) {
      double total = 0;
      for (const auto& [role, bytes] : stage["buffers"]["device"].items()) {
        const double sum = bytes.get<double>() + stage["buffers"]["host"][role].get<double>();
        most[role] = std::max(most[role], sum / mib);
        total += sum / mib;
      }
      most["total"] = std::max(most["total"], total);
    }
    return most;
  }

  // Up to the log's rounding.
  void expect_exact(const Run& run, const std::vector<Layout>& layouts) {
    constexpr double rounding = 0.00051;
    for (const Layout& layout : layouts) {
      const ByRole plan = planned(run, layout), held = measured(run, layout);
      EXPECT_GT(held.at("total"), 0.1);
      for (const auto& [role, value] : plan) {
        const auto found = held.find(role);
        EXPECT_NEAR(found == held.end() ? 0 : found->second, value, rounding)
            << role << " on " << layout.ranks << " ranks, " << layout.text;
      }
    }
  }
};

TEST_F(LayoutPlan, DataRanksAndZeroStagesHoldAsPredicted) {
  expect_exact(gpt(), {{1, ""},
                       {2, "data=2"},
                       {4, "data=4 zero=1"},
                       {8, "data=8 zero=2"},
                       {2, "data=2 zero=3"},
                       {2, "data=2 zero=2 reducer=inline"},
                       {4, "data=4 zero=3 recompute=full"}});
}

TEST_F(LayoutPlan, TensorRanksAndSequenceParallelismHoldAsPredicted) {
  expect_exact(gpt(), {{2, "tensor=2"},
                       {2, "tensor=2 sequence=true recompute=selective"},
                       {4, "tensor=4 sequence=true recompute=full"}});
}

TEST_F(LayoutPlan, PipelinesHoldAsPredicted) {
  expect_exact(gpt(), {{2, "pipeline=2 schedule=gpipe"},
                       {2, "pipeline=2 schedule=1f1b recompute=full"},
                       {2, "pipeline=2 schedule=interleaved chunks=2 recompute=selective"},
                       {2, "pipeline=2 schedule=zero-bubble stage_layers=[1,3]"},
                       {4, "pipeline=4 schedule=1f1b"},
                       {4, "pipeline=4 schedule=zero-bubble"}});
}

TEST_F(LayoutPlan, CombinationsHoldAsPredicted) {
  expect_exact(gpt({"reproducibility=layout", "parallel.tensor_blocks=4"}),
               {{8, "data=2 tensor=2 pipeline=2 zero=2 sequence=true"},
                {8,
                 "data=2 tensor=2 pipeline=2 zero=3 schedule=interleaved chunks=2 "
                 "recompute=full"},
                {8, "data=2 pipeline=4 zero=1 schedule=zero-bubble"},
                {6, "data=3 pipeline=2 zero=1 train.global_batch=12"}});
}

TEST_F(LayoutPlan, LowPrecisionHoldsAsPredicted) {
  expect_exact(gpt({"precision=bf16"}), {{2, "data=2 zero=3"},
                                         {4, "tensor=2 pipeline=2"},
                                         {4, "data=4 zero=2"},
                                         {3, "data=3 reduce_dtype=compute train.global_batch=12"},
                                         {4, "data=2 pipeline=2 zero=3 reduce_dtype=compute"}});
  expect_exact(gpt({"precision=fp16"}), {{2, "data=2 zero=1 reduce_dtype=compute"}});
  expect_exact(gpt({"precision=fp8"}), {{2, "pipeline=2"}});
}

TEST_F(LayoutPlan, AveragesCheckpointsAndChecksHoldAsPredicted) {
  Settings set{"train.ema_decay=0.9", "checkpoint.every_steps=1", "train.divergence_check_every=1"};
  expect_exact(gpt(set), {{1, "data=1"},
                          {4, "data=4 zero=1"},
                          {4, "data=2 tensor=2 zero=2"},
                          {2, "data=2 zero=3"},
                          {4, "data=2 pipeline=2"}});
  set.emplace_back("precision=bf16");
  expect_exact(gpt(set), {{4, "data=4 zero=1", "rounded"}, {2, "data=2 zero=2", "rounded"}});
}

TEST_F(LayoutPlan, ResNetsHoldAsPredicted) {
  expect_exact(resnet(), {{1, ""},
                          {4, "data=4 zero=1"},
                          {2, "data=2 zero=2 recompute=full"},
                          {2, "pipeline=2 schedule=interleaved chunks=2"},
                          {4, "data=2 pipeline=2 zero=3 schedule=gpipe"}});
  expect_exact(resnet({"precision=bf16", "checkpoint.every_steps=1"}),
               {{4, "data=2 pipeline=2 zero=1"}});
}

// Rows of 8 experts, of which a rank has memory for twice an even load, or all that can come.
TEST_F(LayoutPlan, ExpertsHoldAsPredicted) {
  const Settings set{"model.family=llama",      "model.experts=8", "model.experts_per_token=2",
                     "model.balance_loss=0.01", "model.dropout=0", "model.shared_intermediate=16"};
  expect_exact(gpt(set), {{1, ""},
                          {2, "data=2 expert=2 zero=1"},
                          {4, "data=4 expert=2 zero=3"},
                          {4, "data=4 expert=4 zero=2 recompute=selective"},
                          {2, "tensor=2 sequence=true"},
                          {4, "data=2 tensor=2 expert=4 recompute=full"},
                          {4, "data=2 expert=2 pipeline=2 schedule=zero-bubble"}});
  Settings half = set;
  half.emplace_back("precision=bf16");
  expect_exact(gpt(half), {{2, "data=2 expert=2 zero=3"}, {4, "data=4 expert=2 zero=1"}});
}

// Halos, and the parts of norms' and averages' sums; slabs of unequal length.
TEST_F(LayoutPlan, SamplesCutInSpaceHoldAsPredicted) {
  const Settings set{"train.steps=1", "parallel.bucket_megabytes=0.01"};
  expect_exact({.config = "unet_of_mlperf.yaml", .set = set, .steps = 1},
               {{2, "spatial=[2,1,1]"}, {4, "spatial=[1,2,2] recompute=full"}});
  expect_exact({.config = "deepcam.yaml", .set = set, .steps = 1},
               {{2, "spatial=[1,2,1]"}, {4, "spatial=[1,2,1] data=2 zero=3"}});
}

// All ranks train in the layout that rank 0 found, and the run's config replays it.
TEST_F(LayoutPlan, ASearchedRunTrainsInTheLayoutThatThePlanRanksFirst) {
  const Run run = gpt({"parallel.search=true", "parallel.hardware=" + hardware()});

  const CommandResult trained = train_layout(run, {4, ""});
  const CommandResult plan = trireme(fmt::format("plan {}/gpt.yaml --ranks 4 --set {}",
                                                 data_directory(), fmt::join(run.set, " --set ")));

  EXPECT_THAT(trained.output,
              AllOf(HasSubstr("the fastest of "), HasSubstr("step time: predicted")));
  const auto flags = [](const std::string& text) {
    const auto at = text.find("--set parallel.data=");
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_NE(flags(plan.output), "") << plan.output;
  EXPECT_EQ(flags(trained.output), flags(plan.output));
  EXPECT_THAT(read_file(directory() + "/" + name_of({4, ""}) + "/config.yaml"),
              AllOf(HasSubstr("search: false"), Not(HasSubstr("data: auto"))));
}

TEST_F(LayoutPlan, ASearchWithoutAFittingMachineIsRefused) {
  const CommandResult none = train_gpt("none", 2, {"parallel.search=true"});
  write_file(directory() + "/gpu.yaml", without_cores());
  const CommandResult gpus = train_gpt(
      "gpus", 2, {"parallel.search=true", "parallel.hardware=" + directory() + "/gpu.yaml"});

  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("true needs parallel.hardware"));
  EXPECT_EQ(gpus.exit_code, 2);
  EXPECT_THAT(gpus.output, HasSubstr("describes a machine of device.type: cuda"));
}

}  // namespace
}  // namespace trireme::test
