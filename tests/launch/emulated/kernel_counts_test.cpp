// SPDX-License-Identifier: Apache-2.0
// The counts of `trireme bench kernels`, against steps on an emulated GPU and against budgets.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "launch/bench/kernels/step_count.h"
#include "launch/bench/model/measure.h"
#include "launch/bench/model/profile.h"
#include "launch/engine/engine.h"
#include "launch/plan/step_plan.h"
#include "models/config.h"
#include "runtime/ops/gemm/gemm_tuning.h"
#include "runtime/plan/step_time.h"

namespace trireme {
namespace {

using kernel_bench::KernelCount;
using kernel_bench::OperationCount;
using kernel_bench::StepCount;

Config on_gpus(int gpus, const std::string& file, std::vector<std::string> overrides) {
  Provenance where;
  overrides.emplace_back("device.type=cuda");
  Config given = load_config("configs/" + file, overrides, &where);
  return resolve_config(std::move(given),
                        {.ranks = gpus, .cuda_in_build = true, .gpus = gpus, .native_bf16 = true},
                        &where);
}

Config on_one_gpu(const std::string& file, std::vector<std::string> overrides) {
  return on_gpus(1, file, std::move(overrides));
}

// The second step, from a run.
StepCount count_running(const Config& config) {
  Engine all(single_resources(Device::create(DeviceType::cuda)), config, Purpose::train,
             {.batches = model_bench::synthetic_batches});
  all.begin();
  StepEngine& engine = all.training().state->engine;
  BatchSource& batches = *all.training().batches;
  engine.run(0, batches);
  static_cast<void>(engine.read(0));
  const WorkLog log;
  engine.run(1, batches);
  static_cast<void>(engine.read(1));
  return kernel_bench::count_of(log, all.session().pipeline.micro_batches);
}

const std::vector<std::string> small_gpt_oss{
    "model.layers=2",       "model.hidden=32",           "model.heads=4",       "model.kv_heads=2",
    "model.head_size=8",    "model.intermediate=32",     "model.experts=4",     "model.window=9",
    "model.context=16",     "model.experts_per_token=2", "parallel.zero=0",     "precision=fp32",
    "train.global_batch=4", "model.vocabulary=64",       "train.recompute=none"};

// One line per operation: "forward/block activation_forward: 4 calls, 1024 bytes read ...; 4 x
// activation_kernel".
std::string text_of(const StepCount& count) {
  std::string text;
  for (const OperationCount& each : count.operations) {
    text += fmt::format("{}/{} {}: {} calls, {} read, {} written, {} flops;", each.pass, each.layer,
                        each.name, each.calls, each.traffic.read, each.traffic.written,
                        each.traffic.flops);
    for (const KernelCount& kernel : each.kernels)
      text += fmt::format(" {} x {}", kernel.calls, kernel.name);
    text += '\n';
  }
  return text;
}

void expect_same_as_running(const std::string& file, const std::vector<std::string>& overrides) {
  const Config config = on_one_gpu(file, overrides);

  const StepCount counted = kernel_bench::count_step(config);

  EXPECT_TRUE(counted.launches);
  EXPECT_EQ(text_of(counted), text_of(count_running(config)));
}

// In fp32 our own kernels compute attention, on the described GPU as on the emulated one, which has
// no cuDNN.
TEST(KernelCounts, OfGptAreThoseOfAStepThatRuns) {
  expect_same_as_running("gpt_tiny.yaml",
                         {"model.layers=2", "model.hidden=32", "model.context=16",
                          "model.dropout=0.1", "parallel.zero=0", "precision=fp32"});
}

TEST(KernelCounts, OfLlamaAreThoseOfAStepThatRuns) {
  expect_same_as_running("llama_tiny.yaml",
                         {"model.layers=2", "model.hidden=32", "model.intermediate=32",
                          "model.context=16", "parallel.zero=0", "precision=fp32"});
}

TEST(KernelCounts, OfGptOssAreThoseOfAStepThatRuns) {
  expect_same_as_running("gpt_oss_20b.yaml", small_gpt_oss);
}

TEST(KernelCounts, OfExpertsAreThoseOfAStepThatRuns) {
  expect_same_as_running(
      "moe_tiny.yaml",
      {"model.layers=2", "model.hidden=32", "model.intermediate=32", "model.expert_intermediate=32",
       "model.shared_intermediate=32", "model.context=16", "parallel.zero=0", "precision=fp32"});
}

// The events of a profile enclose exactly the counted operations, with time between them.
TEST(KernelCounts, OfGptAreThoseThatAProfileOfTheGpuTimes) {
  const Config config =
      on_one_gpu("gpt_tiny.yaml", {"model.layers=2", "model.hidden=32", "model.context=16",
                                   "parallel.zero=0", "precision=fp32", "device.graphs=step"});
  const auto device = Device::create(DeviceType::cuda);

  const model_bench::StepProfile profile = model_bench::profile_step(*device, config, 0);

  std::map<std::string, double> timed, counted;
  for (const model_bench::OperationTime& each : profile.operations) {
    timed[each.name] += each.calls;
    EXPECT_GT(each.seconds, 0) << each.name;
  }
  for (const OperationCount& each : kernel_bench::count_step(config).operations) {
    // Copies and fills are outside of operations.
    if (each.name != "copy" && each.name != "fill")
      counted[each.name] += static_cast<double>(each.calls);
  }
  EXPECT_EQ(timed, counted);
}

template <typename Of>
double sum_of(const std::vector<plan::LayerWork>& layers, Of of) {
  double sum = 0;
  for (const plan::LayerWork& layer : layers) {
    for (const auto* part :
         {&layer.forward, &layer.recompute, &layer.backward_input, &layer.backward_weight}) {
      for (const Traffic& each : *part)
        sum += of(each);
    }
  }
  return sum;
}

// The planner counts on a device without back end, bench kernels on this program's.
TEST(KernelCounts, AreWhatThePlannerReads) {
  const Config config = on_one_gpu(
      "llama_tiny.yaml",
      {"parallel.zero=0", "train.recompute=full", "precision=bf16", "telemetry.weight_digests=0"});

  const CountedWork planned = count_work(config);

  const kernel_bench::Totals counted = micro_batch_totals(kernel_bench::count_step(config));
  using Work = Traffic;
  EXPECT_DOUBLE_EQ(
      sum_of(planned.layers, [](const Work& each) { return each.read + each.written; }),
      counted.read + counted.written);
  EXPECT_DOUBLE_EQ(sum_of(planned.layers, [](const Work& each) { return each.kernels; }),
                   counted.launches);
  EXPECT_NEAR(planned.optimizer_bytes, 28, 0.01);  // AdamW; scalars are a few bytes more
  EXPECT_TRUE(planned.layers.front().recompute.empty()) << "the embedding is no block";
  EXPECT_FALSE(planned.layers[1].recompute.empty());
}

TEST(KernelCounts, OfExpertsThatDataRanksShareArePlanned) {
  std::vector<std::string> overrides = small_gpt_oss;
  const CountedWork apart = count_work(on_gpus(4, "gpt_oss_20b.yaml", overrides));
  overrides.emplace_back("parallel.expert=4");

  const CountedWork shared = count_work(on_gpus(4, "gpt_oss_20b.yaml", overrides));

  using Work = Traffic;
  const auto flops = [](const Work& each) { return each.flops; };
  const auto bytes = [](const Work& each) { return each.read + each.written; };
  EXPECT_DOUBLE_EQ(sum_of(shared.layers, flops), sum_of(apart.layers, flops));
  EXPECT_LT(sum_of(shared.layers, bytes), sum_of(apart.layers, bytes)) << "fewer experts a rank";
}

// Declared launches of operations, which the planner counts in any build, against those of the host
// code.
void expect_declared_kernels(const std::string& file, const std::vector<std::string>& overrides) {
  const StepCount count = kernel_bench::count_step(on_one_gpu(file, overrides));
  for (const OperationCount& each : count.operations) {
    const bool copies = std::ranges::all_of(each.kernels, [](const KernelCount& kernel) {
      return kernel.kind == WorkKind::copy || kernel.kind == WorkKind::fill;
    });
    if (each.single.empty() || copies) continue;
    std::int64_t declared = 0;
    for (const Traffic& traffic : each.single)
      declared += traffic.kernels;
    EXPECT_EQ(declared, each.launches())
        << file << " " << overrides.front() << ": " << each.pass << "/" << each.layer << " "
        << each.name << ", " << each.calls << " calls";
  }
}

TEST(KernelCounts, AreWhatOperationsDeclare) {
  for (const std::string precision : {"precision=fp32", "precision=bf16"}) {
    for (const char* const fused :
         {"device.fused_epilogues=false", "device.fused_epilogues=true"}) {
      expect_declared_kernels("gpt_tiny.yaml", {precision, fused, "model.dropout=0.1"});
      expect_declared_kernels("resnet_fashion.yaml", {precision, fused});
    }
    for (const char* const file :
         {"llama_tiny.yaml", "moe_tiny.yaml", "vit_fashion.yaml", "bert_tiny.yaml"})
      expect_declared_kernels(file, {precision});
    expect_declared_kernels("gpt_tiny.yaml", {precision, "reproducibility=layout"});
  }
  expect_declared_kernels("gpt_tiny.yaml", {"precision=fp8", "reproducibility=fast"});
  expect_declared_kernels("gpt_tiny.yaml", {"precision=fp8", "model.dropout=0"});
  expect_declared_kernels("llama_tiny.yaml", {"precision=fp8"});
  expect_declared_kernels("gpt_tiny.yaml", {"precision=fp8", "fp8_recipe=blockwise"});
  expect_declared_kernels("bert_tiny.yaml", {"precision=fp8", "model.dropout=0"});
  expect_declared_kernels("gpt2_124m.yaml", {"train.global_batch=128"});
  expect_declared_kernels("gpt_oss_20b.yaml", small_gpt_oss);
  expect_declared_kernels("qwen3_0_6b.yaml", {"train.global_batch=1", "train.micro_batch=1"});
}

// Bytes that a rank sends to its data group per step, in both levels of ZeRO.
struct Sent {
  double gradients = 0, all = 0, planned = 0;
  double parameters = 0;
};

Sent sent_by_a_rank(const Config& config) {
  const bool rounded = config.parallel.reduce_dtype == ReduceDtype::compute;
  const bool whole = config.parallel.zero == 0,
             two = config.parallel.shard() < config.parallel.data;
  const std::string first = !whole && two ? "zero" : "data", last = whole ? "data" : "replicas";
  std::vector<std::string> of_gradients;
  const auto add = [&](const char* verb, const std::string& group) {
    of_gradients.push_back(fmt::format("{} {} ({})", verb, rounded ? "bf16" : "f32", group));
  };
  if (!whole) add(rounded ? "all_to_all" : "reduce_scatter", first);
  if (whole || two) add(rounded ? "all_to_all" : "all_reduce", last);
  if ((whole || two) && rounded) add("all_gather", last);
  Sent sent;
  for (const KernelCount& each : messages(kernel_bench::count_step(config))) {
    const auto of = [&](const char* group) { return each.name.ends_with(group); };
    if (!of("(data)") && !of("(zero)") && !of("(replicas)") && !of("(zero.gather)")) continue;
    sent.all += each.bytes;
    if (std::ranges::find(of_gradients, each.name) != of_gradients.end())
      sent.gradients += each.bytes;
  }
  const plan::StepEstimate estimate = plan::estimate_step(
      StepPlanner().input(config), plan::load_hardware("configs/hardware/h100.yaml"));
  sent.planned = estimate.volumes.data;
  sent.parameters = estimate.stages.front().parameters;
  return sent;
}

// A GPT in 2 micro-batches on each of 4 ranks. ZeRO stages 0 and 1 reduce once per step, the others
// every micro-batch; stage 0 in both directions.
TEST(KernelCounts, GradientsIn16BitsAreHalfOfTheBytesAtEveryZeroStage) {
  constexpr int ranks = 4, micro_batches = 2;
  for (int zero = 0; zero <= 3; ++zero) {
    const auto sent = [&](const char* dtype) {
      return sent_by_a_rank(
          on_gpus(ranks, "gpt_tiny.yaml",
                  {"precision=bf16", "train.micro_batch=1", fmt::format("parallel.zero={}", zero),
                   fmt::format("parallel.reduce_dtype={}", dtype)}));
    };
    const Sent f32 = sent("fp32"), bf16 = sent("compute");
    const int passes = zero == 0 ? 2 : zero == 1 ? 1 : micro_batches;
    const double once = sizeof(float) * f32.parameters * (ranks - 1) / ranks;
    EXPECT_NEAR(f32.gradients / once, passes, 1e-3) << "zero " << zero;
    EXPECT_NEAR(bf16.gradients / f32.gradients, 0.5, 1e-3) << "zero " << zero;
    // The rest is parameters; the planner assumes a gather per use.
    EXPECT_NEAR(f32.all - bf16.all, f32.gradients / 2, 0.01 * once) << "zero " << zero;
    EXPECT_NEAR(f32.planned - bf16.planned, f32.gradients / 2, 0.01 * once) << "zero " << zero;
    if (zero == 3) continue;
    EXPECT_NEAR(f32.all / f32.planned, 1, 0.01) << "zero " << zero;
    EXPECT_NEAR(bf16.all / bf16.planned, 1, 0.01) << "zero " << zero;
  }
}

// Of 8 ranks in groups of 2: the slices of 4 groups are added once a step.
TEST(KernelCounts, ZeroGroupsSendASliceOfTheGradientsOnceAStepToTheOthers) {
  constexpr int ranks = 8, group = 2, groups = ranks / group, micro_batches = 2;
  for (int zero = 1; zero <= 3; ++zero) {
    for (const bool rounded : {false, true}) {
      const Sent sent = sent_by_a_rank(on_gpus(
          ranks, "gpt_tiny.yaml",
          {"precision=bf16", "train.micro_batch=1", "train.global_batch=16",
           fmt::format("parallel.zero={}", zero), fmt::format("parallel.zero_group={}", group),
           fmt::format("parallel.reduce_dtype={}", rounded ? "compute" : "fp32")}));

      const int passes = zero == 1 ? 1 : micro_batches;
      const double bytes = (rounded ? 2 : 4) * sent.parameters;
      const double inside = passes * bytes * (group - 1) / group,
                   between = 2 * bytes / group * (groups - 1) / groups;
      EXPECT_NEAR(sent.gradients / (inside + between), 1, 2e-3) << "zero " << zero;
      if (zero < 3) {
        EXPECT_NEAR(sent.all / sent.planned, 1, 0.01) << "zero " << zero;
      }
    }
  }
}

struct Budget {
  double launches;       // per micro-batch
  double gigabytes;      // 8 samples
  double step_launches;  // besides micro-batches
};

void expect_within(const Budget& budget, const Config& config) {
  const StepCount count = kernel_bench::count_step(config);

  const kernel_bench::Totals micro_batch = micro_batch_totals(count);
  const double samples = static_cast<double>(config.train.micro_batch);
  EXPECT_LE(micro_batch.launches, budget.launches);
  EXPECT_LE(1e-9 * (micro_batch.read + micro_batch.written) * 8 / samples, budget.gigabytes);
  EXPECT_LE(step_totals(count).launches, budget.step_launches);
}

// Rows of the table in scripts/measurements/kernel_counts.txt.
TEST(KernelCounts, OfGpt2With124MillionParametersStayWithinTheirBudgets) {
  expect_within({.launches = 329, .gigabytes = 20.9, .step_launches = 20},
                on_one_gpu("gpt2_124m.yaml", {}));
}

TEST(KernelCounts, OfGpt2WithFusedEpiloguesStayWithinTheirBudgets) {
  expect_within({.launches = 305, .gigabytes = 17.7, .step_launches = 20},
                on_one_gpu("gpt2_124m.yaml", {"device.fused_epilogues=true"}));
}

// What a file of measured epilogues sets apart launches what nothing fused does: in 2 blocks, GELU
// and its derivative. A fused bias gradient saves a pass, but no launch: it is added to the sum.
TEST(KernelCounts, FollowTheFileOfMeasuredEpilogues) {
  const auto launches = [](bool fused) {
    return micro_batch_totals(
               count_running(on_one_gpu(
                   "gpt_tiny.yaml",
                   {"model.layers=2", "model.hidden=32", "model.context=16", "parallel.zero=0",
                    "precision=bf16", fmt::format("device.fused_epilogues={}", fused)})))
        .launches;
  };
  const double apart = launches(false), fused = launches(true);
  ops::GemmChoices choices = ops::no_gemm_choices(*Device::create(DeviceType::cuda));
  int epilogues = 0;
  for (const ops::GemmKey& key : ops::unmeasured_gemms()) {
    if (epilogue_apart(key.epilogue) == key.epilogue) continue;
    choices.algorithms[key].fused = false;
    ++epilogues;
  }

  ops::use_gemm_choices(choices, "tuned.txt");
  const double chosen = launches(true);
  ops::use_gemm_choices({}, "");

  EXPECT_EQ(epilogues, 6) << "GELU, its derivative, and 4 bias gradients";
  EXPECT_EQ(apart, 69);
  EXPECT_EQ(fused, apart - 4);
  EXPECT_EQ(chosen, apart);
}

// 8 bits: quantisation reads once what our own kernels wrote.
TEST(KernelCounts, OfGpt2With1558MillionParametersInFp8StayWithinTheirBudgets) {
  expect_within({.launches = 1997, .gigabytes = 183.8, .step_launches = 20},
                on_one_gpu("gpt2_1558m.yaml", {"precision=fp8"}));
}

TEST(KernelCounts, OfLlamaWith8BillionParametersInFp8StayWithinTheirBudgets) {
  expect_within({.launches = 1395, .gigabytes = 3290, .step_launches = 20},
                on_one_gpu("llama3_8b.yaml", {"precision=fp8", "parallel.zero=0"}));
}

// 54 launches and 5.7 GB a layer: 0.9 GB are the weights of 16 experts (bf16, read in forward and
// backward) and their gradients (f32, read and written), nearly all else is passes over 32768 rows
// of 134 MB, 50 MB at the experts' width.
TEST(KernelCounts, OfExpertsOn8RanksStayWithinTheirBudgets) {
  expect_within({.launches = 2622, .gigabytes = 2313, .step_launches = 20},
                on_gpus(8, "qwen3_30b_a3b.yaml",
                        {"parallel.expert=8", "parallel.zero=1", "train.global_batch=8"}));
}

TEST(KernelCounts, AnUpdateIsFewLaunchesWhateverTheNumberOfParameters) {
  for (const std::string mode : {"fast", "layout"}) {
    for (const OptimizerTraits& optimizer : optimizer_table) {
      if (optimizer.orthogonal) continue;  // several per matrix
      const std::string name(optimizer.name);
      const auto launches = [&](int layers) {
        return step_totals(
                   kernel_bench::count_step(on_one_gpu(
                       "gpt_tiny.yaml",
                       {"reproducibility=" + mode, "precision=bf16", "telemetry.weight_digests=0",
                        "optimizer.name=" + name, "model.layers=" + std::to_string(layers)})))
            .launches;
      };
      EXPECT_LE(launches(2), 20) << mode << " " << name;
      EXPECT_EQ(launches(8), launches(2)) << mode << " " << name;
    }
  }
}

}  // namespace
}  // namespace trireme
