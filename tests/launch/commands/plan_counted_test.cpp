// SPDX-License-Identifier: Apache-2.0
// Predictions of `trireme plan` for configs with counted operations, against published runs of the
// same models (scripts/measurements/plan_published.txt).
#include <gtest/gtest.h>

#include "launch/plan/layout_plan.h"
#include "launch/plan/step_plan.h"
#include "models/config.h"
#include "runtime/plan/step_time.h"

namespace trireme {
namespace {

plan::Hardware h100() {
  return plan::load_hardware(TRIREME_CONFIGS "/hardware/h100.yaml");
}

// Tokens per second and GPU.
double planned(const std::string& file, int ranks, std::vector<std::string> settings,
               const plan::Hardware& hardware = h100()) {
  Provenance where;
  Config given = load_config(TRIREME_CONFIGS "/" + file, settings, &where);
  const Config config =
      resolve_config(std::move(given), planned_environment(ranks, hardware), &where);
  const plan::StepInput input = StepPlanner().input(config);
  return plan::estimate_step(input, hardware).samples_per_second *
         static_cast<double>(input.items_per_sample) / ranks;
}

struct Qwen {
  int layers, hidden, heads, kv_heads, intermediate;
  bool tied;
};
constexpr Qwen smallest{24, 896, 14, 2, 4864, true}, seven_billion{28, 3584, 28, 4, 18944, false};

std::vector<std::string> qwen(const Qwen& model, const std::string& precision, int batch) {
  std::vector<std::string> settings{
      "model.context=1024",   "train.global_batch=512", "train.recompute=none",
      "parallel.zero=0",      "precision=" + precision, fmt::format("train.micro_batch={}", batch),
      "model.tied_head=false"};
  const auto set = [&](const char* key, int value) {
    settings.push_back(fmt::format("model.{}={}", key, value));
  };
  set("layers", model.layers);
  set("hidden", model.hidden);
  set("heads", model.heads);
  set("kv_heads", model.kv_heads);
  set("intermediate", model.intermediate);
  if (model.tied) settings.emplace_back("model.tied_head=true");
  return settings;
}

void expect_within(double share, double planned, double published) {
  EXPECT_NEAR(planned / published, 1, share) << planned << " of " << published;
}

TEST(CountedPlan, IsCloseToLlmqOnOneH100) {
  const char* const file = "qwen2_5_7b.yaml";
  expect_within(0.05, planned(file, 1, qwen(smallest, "bf16", 32)), 149'500);
  expect_within(0.05, planned(file, 1, qwen(seven_billion, "bf16", 4)), 13'863);
  expect_within(0.08, planned(file, 1, qwen(smallest, "fp8", 32)), 164'000);
}

TEST(CountedPlan, PaysForEveryKernelThatIsLaunched) {
  const std::vector<std::string> settings{"train.micro_batch=1", "train.global_batch=1",
                                          "precision=bf16"};
  plan::Hardware free_launches = h100();
  free_launches.device.launch_seconds = 0;
  const auto seconds = [&](const plan::Hardware& hardware) {
    return 1024 / planned("gpt2_124m.yaml", 1, settings, hardware);
  };

  const double launches = (seconds(h100()) - seconds(free_launches)) / 4e-6;

  // tests/launch/emulated/kernel_counts_test.cpp has the launches of a micro-batch; the update's
  // are added.
  EXPECT_NEAR(launches, 329, 20);
}

TEST(CountedPlan, FlopsOfAStepDependOnNoLayout) {
  const auto flops = [](int ranks, std::vector<std::string> settings) {
    settings.insert(settings.end(), {"train.global_batch=8", "device.type=cpu"});
    Provenance where;
    const Config config =
        resolve_config(load_config(TRIREME_CONFIGS "/llama_tiny.yaml", settings, &where),
                       planned_environment(ranks), &where);
    return plan::model_flops(StepPlanner().declared(config));
  };

  const double alone = flops(1, {"train.micro_batch=4"});

  EXPECT_GT(alone, 0);
  for (const char* const layout :
       {"parallel.data=2", "parallel.tensor=2", "parallel.pipeline=2", "parallel.context=2"})
    EXPECT_EQ(flops(2, {layout, "train.micro_batch=2", "train.recompute=full"}), alone) << layout;
}

TEST(CountedPlan, HeadsOf64TakeTheirOwnRateOfAttention) {
  plan::Hardware same = h100();
  same.efficiency.attention_64 = same.efficiency.attention;
  const std::vector<std::string> settings{"train.micro_batch=8", "train.global_batch=8"};

  EXPECT_LT(planned("gpt2_124m.yaml", 1, settings), planned("gpt2_124m.yaml", 1, settings, same));
  EXPECT_DOUBLE_EQ(planned("qwen2_5_7b.yaml", 1, qwen(seven_billion, "bf16", 4)),
                   planned("qwen2_5_7b.yaml", 1, qwen(seven_billion, "bf16", 4), same));
}

// 8 GPUs of a node, with a sparse model of a tiny one's depth and Qwen3-30B-A3B's widths.
std::vector<std::string> sparse(std::vector<std::string> more) {
  std::vector<std::string> settings{
      "model.hidden=2048",       "model.heads=32",       "model.kv_heads=4",
      "model.experts=128",       "model.context=4096",   "model.experts_per_token=8",
      "train.global_batch=16",   "train.micro_batch=1",  "model.expert_intermediate=768",
      "parallel.zero=1",         "precision=bf16",       "model.shared_intermediate=none",
      "model.router_scale=1",    "model.init_std=0.02",  "parallel.data=8",
      "model.intermediate=auto", "train.recompute=none", "model.router_balanced=true"};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

plan::StepEstimate step_of_experts(const std::vector<std::string>& more) {
  Provenance where;
  const Config config =
      resolve_config(load_config(TRIREME_CONFIGS "/moe_tiny.yaml", sparse(more), &where),
                     planned_environment(8, h100()), &where);
  return plan::estimate_step(StepPlanner().input(config), h100());
}

TEST(CountedPlan, SendsTheRowsOfExpertsOutAndBackInBothPasses) {
  const plan::StepEstimate alone = step_of_experts({}),
                           shared = step_of_experts({"parallel.expert=8"});

  EXPECT_EQ(alone.volumes.experts, 0);
  EXPECT_EQ(alone.expert_exposed, 0);
  // 4 layers in 2 micro-batches of 4096 tokens: 8 rows each of 2048 elements in 16 bits, 7 of 8 to
  // other ranks, four times.
  const double bytes = 4.0 * 2 * 4096 * 8 * 2048 * 2 * 7 / 8 * 4;
  EXPECT_DOUBLE_EQ(shared.volumes.experts, bytes);
  EXPECT_GT(shared.expert_exposed, bytes / 450e9);
  EXPECT_LT(shared.expert_exposed, 1.2 * bytes / 360e9);
  // Each rank reduces an eighth of the experts.
  EXPECT_LT(shared.volumes.data, 0.5 * alone.volumes.data);
}

TEST(CountedPlan, AnAssumedImbalanceLengthensExpertsAndAddsRoundsBeyondTheBuffer) {
  const auto step = [](double imbalance) {
    return step_of_experts(
        {"parallel.expert=8", fmt::format("parallel.expert_imbalance={}", imbalance)});
  };
  const plan::StepEstimate even = step(1), more = step(1.5), most = step(3);

  EXPECT_NEAR(more.expert_exposed / even.expert_exposed, 1.5, 0.1);
  EXPECT_GT(more.forward, 1.1 * even.forward);
  EXPECT_LT(more.forward, 1.5 * even.forward);
  // Beyond twice the even load: rows are sent and computed again in backward.
  EXPECT_GT(most.volumes.experts, even.volumes.experts);
  EXPECT_GT(most.backward + most.recompute - even.backward,
            1.9 * (more.backward - even.backward) / 0.5);
}

}  // namespace
}  // namespace trireme
