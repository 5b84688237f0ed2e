// SPDX-License-Identifier: Apache-2.0
// Gains of other settings, for runs that took exactly the planner's estimates on a known machine.
#include "launch/plan/neighbours.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "launch/plan/layout_plan.h"
#include "models/config.h"
#include "tests/launch/fixture/hardware_text.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::Field;
using testing::IsEmpty;
using testing::Not;

const std::string deep_gpt = R"(
precision: fp32
device: {type: cpu}
model: {family: gpt2, layers: 6, hidden: 64, heads: 4, context: 32, vocabulary: 256}
data: {path: none}
train: {global_batch: 16, micro_batch: 4}
)";
constexpr RunFacts two_ranks{.ranks = 2, .host_ranks = 2, .host_cores = 2};
constexpr plan::Link link{.latency = 1e-5, .bandwidth = 1e9};

// Messages leave a rank's core to its computation in a share of 0.5.
plan::Hardware two_cores() {
  plan::Hardware hardware = plan::parse_hardware(test::small_machine, "machine.yaml");
  hardware.node = {.ranks = 2, .cores = 2};
  return hardware;
}

Config run_config(const std::vector<std::string>& set, int ranks = 2) {
  const Config given = parse_config(deep_gpt, "test.yaml", set);
  return resolve_config(given, planned_environment(ranks, given));
}

plan::StepEstimate estimate(const Config& config, const plan::Hardware& hardware = two_cores()) {
  return plan::estimate_step(StepPlanner().input(config), hardware);
}

// A run of 100 steps that took just these.
RunSummary summary_of(const plan::StepEstimate& step) {
  constexpr double milliseconds = 1e3 * 100;
  StepTotals totals{.steps = 100};
  totals.times[TimePart::forward] = milliseconds * step.forward;
  totals.times[TimePart::backward] = milliseconds * (step.backward + step.recompute);
  totals.times[TimePart::optimizer] = milliseconds * step.optimizer;
  totals.times[TimePart::reduce_comm] = milliseconds * step.data_exposed;
  totals.times[TimePart::tensor_comm] = milliseconds * step.tensor_exposed;
  totals.times[TimePart::gather_comm] = milliseconds * step.gather_exposed;
  totals.times[TimePart::exposed_comm] = totals.times[TimePart::reduce_comm] +
                                         totals.times[TimePart::tensor_comm] +
                                         totals.times[TimePart::gather_comm];
  totals.times[TimePart::bubble] = milliseconds * (step.bubble + step.pipeline_exposed);
  return {.totals = totals, .wall_seconds = 100 * step.total};
}

MachineRates rates(const plan::Link& of_links = link) {
  return {.matmuls = {.flops = 1e11, .half_dimension = 16},
          .launch = 1e-6,
          .tensor = of_links,
          .others = of_links};
}

std::vector<Trial> trials(const Config& config, const RunFacts& facts = two_ranks) {
  return neighbour_trials(config, facts, summary_of(estimate(config)), rates());
}

double gain_of(const std::vector<Trial>& trials, const std::string& setting) {
  const auto found = std::ranges::find(trials, setting, &Trial::setting);
  return found == trials.end() ? 0 : found->gain;
}

TEST(Neighbours, GainThePlannersSavingsOnTheRunsMachine) {
  const Config now = run_config({"parallel.pipeline=2", "train.micro_batch=8"});
  const double step = estimate(now).total;
  const auto gain = [&](const std::vector<std::string>& other) {
    std::vector<std::string> set{"parallel.pipeline=2", "train.micro_batch=8"};
    set.insert(set.end(), other.begin(), other.end());
    return 1 - estimate(run_config(set)).total / step;
  };

  const std::vector<Trial> found = trials(now);

  const double other_schedule = gain({"parallel.schedule=zero-bubble"});
  EXPECT_GT(other_schedule, 0.1);
  EXPECT_NEAR(gain_of(found, "parallel.schedule=zero-bubble"), other_schedule, 0.02);
  const double fewer_stages = gain({"parallel.pipeline=1", "parallel.data=2"});
  EXPECT_GT(fewer_stages, 0.1);
  EXPECT_NEAR(gain_of(found, "parallel.pipeline=1 parallel.data=2"), fewer_stages, 0.02);
  EXPECT_NEAR(gain_of(found, "train.micro_batch=4"), gain({"train.micro_batch=4"}), 0.02);
}

TEST(Neighbours, ACutByHandIsHeldAgainstTheBalancedOne) {
  const std::vector<Trial> uneven =
      trials(run_config({"parallel.pipeline=2", "parallel.stage_layers=[2,6]"}));
  EXPECT_GT(gain_of(uneven, "parallel.stage_layers=[]"), 0.15);

  EXPECT_EQ(gain_of(trials(run_config({"parallel.pipeline=2", "parallel.stage_layers=[4,4]"})),
                    "parallel.stage_layers=[]"),
            0);
}

TEST(Neighbours, FewerCallsAreAdvisedIfLatencyDominates) {
  plan::Hardware slow = two_cores();
  slow.links.inside.latency = 1e-3;
  const auto found = [&](const std::vector<std::string>& set) {
    const Config now = run_config(set);
    return neighbour_trials(now, two_ranks, summary_of(estimate(now, slow)),
                            rates({.latency = 1e-3, .bandwidth = 1e9}));
  };

  const auto data = found({"parallel.data=2", "parallel.bucket_megabytes=0.02"});
  EXPECT_THAT(data,
              Contains(Field(&Trial::setting, testing::StartsWith("parallel.bucket_megabytes="))));
  const auto tensor = found({"parallel.tensor=2", "train.micro_batch=1"});
  EXPECT_NEAR(gain_of(tensor, "train.micro_batch=2"), 0.5, 0.1);
  EXPECT_GT(gain_of(tensor, "parallel.tensor=1 parallel.data=2"), 0.8);
}

TEST(Neighbours, APartSavesNoMoreThanItTook) {
  const Config now = run_config({"parallel.pipeline=2", "train.micro_batch=8"});
  RunSummary summary = summary_of(estimate(now));
  summary.totals.times[TimePart::bubble] = 0;

  EXPECT_THAT(neighbour_trials(now, two_ranks, summary, rates()), IsEmpty());
}

TEST(Neighbours, RefusedAndResultChangingSettingsAreSkipped) {
  const auto has = [](std::string_view setting) {
    return Contains(Field(&Trial::setting, testing::HasSubstr(std::string(setting))));
  };
  const std::vector<std::string> set{"parallel.pipeline=2", "train.micro_batch=8"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> all = set;
    all.push_back(more);
    return trials(run_config(all));
  };

  EXPECT_THAT(with("train.recompute=full"), Not(has("zero-bubble")));
  EXPECT_THAT(trials(run_config({"parallel.pipeline=2", "train.micro_batch=8",
                                 "parallel.schedule=interleaved", "parallel.chunks=2"})),
              Not(has("zero-bubble")));
  EXPECT_THAT(with("run.seed=8"), has("train.micro_batch"));
  EXPECT_THAT(with("reproducibility=layout"), Not(has("train.micro_batch")));
}

TEST(Neighbours, GivesNoAdviceIfStepsDiffer) {
  const Config now = run_config({"parallel.pipeline=2", "train.micro_batch=8"});
  EXPECT_THAT(trials(now), Not(IsEmpty()));

  EXPECT_THAT(trials(now, {.ranks = 2, .host_ranks = 2, .host_cores = 1}), IsEmpty());
  EXPECT_THAT(trials(run_config(
                  {"parallel.pipeline=2", "train.micro_batch=8", "train.batch_ramp=[0:8,100:16]"})),
              IsEmpty());
}

}  // namespace
}  // namespace trireme
