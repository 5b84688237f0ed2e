// SPDX-License-Identifier: Apache-2.0
// `trireme plan` inside the test's own process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>

#include "launch/cli/commands.h"
#include "launch/plan/print_schedule.h"
#include "runtime/plan/cluster.h"
#include "tests/launch/fixture/hardware_text.h"
#include "tests/support/command.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlanCommand : public testing::Test {
 protected:
  // The command's output without a terminal.
  static std::string plan(const std::string& arguments) {
    CLI::App app;
    add_plan_command(app);
    testing::internal::CaptureStdout();
    try {
      app.parse("plan " + arguments);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }
  template <typename... Parts>
  static void expect_refusal(const std::string& arguments, const Parts&... parts) {
    test::expect_error(
        ExitCode::config, [&] { (void)plan(arguments); }, parts...);
  }

  std::string config(const std::string& text) const {
    test::write_file(directory_.path() + "/a.yaml", text);
    return directory_.path() + "/a.yaml ";
  }

  test::TemporaryDirectory directory_;
};

TEST_F(PlanCommand, DrawsTheScheduleToScale) {
  EXPECT_EQ(plan("--print-schedule --stages 2 --micro-batches 3 --schedule 1f1b"),
            "1f1b: 2 stages, 3 micro-batches, 1 chunk per stage\n"
            "F forward (1 unit), B backward (2); the number is the micro-batch\n"
            "\n"
            "time     0              5              10\n"
            "stage 0  F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
            "stage 1  .  F0 B0--- F1 B1--- F2 B2--- .  .\n"
            "\n"
            "bubble     25.0 %\n"
            "makespan   12 units\n"
            "in flight  2 1 micro-batches at most, by stage\n"
            "slots      2 2 by stage, with inputs received ahead\n");
}

TEST_F(PlanCommand, DrawsWeightGradientsAndChunks) {
  EXPECT_THAT(plan("--print-schedule --stages 2 --micro-batches 2 --schedule zero-bubble"),
              AllOf(HasSubstr("stage 0  F0 F1 .  B0 W0 B1 W1\n"),
                    HasSubstr("stage 1  .  F0 B0 F1 B1 W0 W1\n"), HasSubstr("bubble     14.3 %")));
  EXPECT_THAT(
      plan("--print-schedule --stages 2 --micro-batches 2 --chunks 2 --schedule interleaved"),
      AllOf(HasSubstr("F3.1 is micro-batch 3 in chunk 1"),
            HasSubstr("stage 0  F0.0 F1.0 F0.1 F1.1 "), HasSubstr("bubble     20.0 %"),
            HasSubstr("micro-batch chunks")));
}

TEST_F(PlanCommand, CutsTheTableAtTheWidthAndSaysSo) {
  const std::string wide = plan("--print-schedule --stages 3 --micro-batches 40 --schedule gpipe");
  const std::string cut =
      plan("--print-schedule --stages 3 --micro-batches 40 --schedule gpipe --width 40");

  EXPECT_THAT(wide, Not(HasSubstr("cut at")));
  EXPECT_THAT(cut, HasSubstr("cut at 7 of 126 units"));
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = cut.find("stage ", at)) != std::string::npos; ++at) {
    if (at > 0 && cut[at - 1] != '\n') continue;
    EXPECT_LE(cut.find('\n', at) - at, 40U);
    ++rows;
  }
  EXPECT_EQ(rows, 3U);
}

TEST_F(PlanCommand, ColoursCellsWithoutChangingTheirText) {
  const ScheduleShape shape{ScheduleKind::interleaved, 2, 4, 2};

  std::string coloured = describe_schedule(shape, {.width = 60, .colour = true});

  EXPECT_THAT(coloured, AllOf(HasSubstr("\033[30;44mF0.0"), HasSubstr("\033[30;104mF0.1")));
  for (std::size_t at = 0; (at = coloured.find('\033')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) + 1 - at);
  EXPECT_EQ(coloured, describe_schedule(shape, {.width = 60, .colour = false}));
}

TEST_F(PlanCommand, TakesTheShapeFromTheConfig) {
  const std::string file = config(
      "parallel: {pipeline: 4, data: 2}\n"
      "train: {global_batch: 64, micro_batch: 4}\n");

  EXPECT_THAT(plan(file + "--print-schedule"),
              AllOf(HasSubstr("1f1b: 4 stages, 8 micro-batches, 1 chunk per stage"),
                    HasSubstr("bubble     27.3 %"), Not(HasSubstr("auto"))));
  EXPECT_THAT(plan(file + "--print-schedule --set train.micro_batch=8 --set parallel.pipeline=2"),
              HasSubstr("1f1b: 2 stages, 4 micro-batches"));
  EXPECT_THAT(plan(file + "--print-schedule --schedule interleaved --chunks 2"),
              HasSubstr("interleaved: 4 stages, 8 micro-batches, 2 chunks per stage"));
}

TEST_F(PlanCommand, CountsAutomaticDataRanksAsOneUnlessToldTheRanks) {
  const std::string file =
      config("parallel: {pipeline: 2, tensor: 2}\ntrain: {global_batch: 32, micro_batch: 4}\n");

  EXPECT_THAT(
      plan(file + "--print-schedule"),
      AllOf(HasSubstr("counted as 1 data-parallel rank, 4 in all"), HasSubstr("8 micro-batches")));
  EXPECT_THAT(plan(file + "--print-schedule --ranks 16"),
              AllOf(HasSubstr("2 micro-batches"), Not(HasSubstr("counted"))));
}

TEST_F(PlanCommand, RefusesImpossibleShapesWithValidOnes) {
  const std::string interleaved = "--print-schedule --schedule interleaved --chunks 2 --stages 4 ";

  expect_refusal(interleaved + "--micro-batches 6", "--schedule", "not 6", "use 4 or 8");
  expect_refusal("--print-schedule --schedule gpipe --stages 4 --micro-batches 6 --chunks 2",
                 "gpipe runs 1 chunk");
  expect_refusal("--print-schedule --schedule zigzag --stages 4 --micro-batches 6",
                 "zigzag is not a schedule", "zero-bubble");
  expect_refusal("--print-schedule --schedule gpipe --stages 65536 --micro-batches 1000000",
                 "too large to draw");
}

TEST_F(PlanCommand, RefusesIncompleteAndIdleOptions) {
  expect_refusal("--print-schedule --stages 4", "give a config file");
  expect_refusal("--print-schedule --stages 4 --micro-batches 4 --schedule gpipe --ranks 4",
                 "--ranks have no effect without a config");
  EXPECT_THROW((void)plan("--stages 4 --micro-batches 4 --schedule gpipe"), CLI::RequiresError);
  EXPECT_THROW((void)plan("--print-schedule --search"), CLI::ExcludesError);
  expect_refusal("", "give a config file");
  EXPECT_THROW((void)plan("--print-schedule --stages 0"), CLI::ValidationError);
}

TEST_F(PlanCommand, RefusesConfigsWhoseBatchesDoNotDivide) {
  const std::string file = config(
      "parallel:\n  pipeline: 2\n  chunks: 2\ntrain:\n  global_batch: 30\n  micro_batch: 4\n");

  expect_refusal(file + "--print-schedule", "a.yaml:5: train.global_batch", "30", "use 32");
  expect_refusal(file + "--print-schedule --set train.global_batch=32", "parallel.schedule",
                 "1f1b runs 1 chunk per stage, not 2");
  expect_refusal(file + "--print-schedule --ranks 3", "--ranks", "multiple of 2");
  expect_refusal(file + "--print-schedule --ranks 8 --set parallel.data=2", "parallel.data",
                 "use auto or 4");
  expect_refusal(directory_.path() + "/none.yaml --print-schedule", "none.yaml");
}

class WholePlan : public PlanCommand {
 protected:
  // A config and a machine on which it fits, as options.
  std::string gpt(const std::string& memory = "1000000000") const {
    test::write_file(directory_.path() + "/machine.yaml",
                     test::with_value(test::small_machine, "memory_bytes", memory));
    return config(
               "precision: fp32\n"
               "model: {family: gpt2, layers: 4, hidden: 64, heads: 4, context: 32, vocabulary: "
               "256}\n"
               "data: {path: none}\n"
               "train: {steps: 100, global_batch: 16, micro_batch: 2}\n") +
           "--hardware " + directory_.path() + "/machine.yaml ";
  }
};

TEST_F(WholePlan, ReportsMemoryStepTimeAndCost) {
  const std::string text = plan(gpt() + "--ranks 4 --set parallel.pipeline=2");

  EXPECT_THAT(text,
              AllOf(HasSubstr("gpt2 of 218 k parameters in fp32 on 4 rank(s): data 2 x tensor 1 x "
                              "pipeline 2"),
                    HasSubstr("a step: 512 tokens"), HasSubstr("4 micro-batches of 2"),
                    HasSubstr("stage 0 (2 ranks)"), HasSubstr("stage 1 (2 ranks)"),
                    HasSubstr("activations of stage "), HasSubstr("blocks (2)"),
                    HasSubstr("fits into the 953.7 MiB of test machine")));
  EXPECT_THAT(text, AllOf(HasSubstr("step time"), HasSubstr("bubble"), HasSubstr("tokens/s, MFU"),
                          HasSubstr("5.12e+04 tokens:"), HasSubstr("at 2 per rank-hour")));
  EXPECT_THAT(plan(gpt() + "--ranks 4 --token-budget 1e9"), HasSubstr("1e+09 tokens:"));
}

TEST_F(WholePlan, CountsBytesAsTheFormulasDo) {
  const std::string file = directory_.path() + "/plan.json";
  (void)plan(gpt() + "--ranks 2 --set parallel.zero=1 --json " + file);

  const auto json = nlohmann::json::parse(test::read_file(file));
  const auto& stage = json["memory"]["stages"][0];
  const double weights = 4.0 * json["parameters"].get<double>();
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(stage["ranks"], 2);
  EXPECT_NEAR(stage["bytes"]["weights"], weights, 0.01 * weights);
  EXPECT_NEAR(stage["bytes"]["gradients"], weights, 0.01 * weights);
  EXPECT_NEAR(stage["bytes"]["optimizer"], weights, 0.01 * weights);  // two moments, halved
  EXPECT_EQ(stage["bytes"]["framework"], 50000000);
  double sum = 0;
  for (const auto& [name, bytes] : stage["bytes"].items())
    sum += bytes.get<double>();
  EXPECT_EQ(stage["total"], sum);
  double parts = 0;
  for (const auto& [name, seconds] : json["step_seconds"].items())
    parts += name == "total" ? 0 : seconds.get<double>();
  EXPECT_NEAR(json["step_seconds"]["total"], parts, 1e-9 * parts);
}

// 4 layers of 64 in fp32: keys and values of a position take 2,048 bytes on a rank that has all.
TEST_F(WholePlan, CountsTheCacheOfTextsThatAreContinued) {
  const std::string file = directory_.path() + "/plan.json";
  const auto cache = [&](const std::string& more) {
    const std::string text = plan(gpt() + more + " --json " + file);
    EXPECT_THAT(text,
                AllOf(HasSubstr("cache"), HasSubstr("fits into"), Not(HasSubstr("step time"))));
    const auto json = nlohmann::json::parse(test::read_file(file));
    const auto& bytes = json["memory"]["stages"][0]["bytes"];
    EXPECT_EQ(bytes["gradients"], 0);
    EXPECT_FALSE(json.contains("step_seconds"));
    return bytes["cache"].get<double>();
  };

  EXPECT_EQ(cache("--ranks 1 --generate 8x32"), 8 * 32 * 2048);
  EXPECT_EQ(cache("--ranks 1 --generate 3x16"), 3 * 16 * 2048);
  EXPECT_EQ(cache("--ranks 2 --set parallel.tensor=2 --generate 8x32"), 8 * 32 * 1024);
  EXPECT_EQ(cache("--ranks 4 --set parallel.pipeline=2 --generate 8x32"), 8 * 32 * 1024);
  for (const char* const wrong : {"8", "8x", "x8", "0x8", "8x8x8", "8x-1", "5000x8", "axb"})
    expect_refusal(gpt() + "--ranks 1 --generate " + std::string(wrong), "is not BATCHxTOKENS");
  expect_refusal(gpt() + "--ranks 1 --generate 8x33", "model.context is 32; give 32 at most");
  expect_refusal(gpt("89000000") + "--ranks 1 --generate 64x32", "cache overflow");
  expect_refusal(config("model: {family: resnet}\n") + "--ranks 1 --generate 8x32",
                 "resnet does not generate text");
  EXPECT_THROW((void)plan(gpt() + "--ranks 1 --search --generate 8x32"), CLI::ExcludesError);
}

TEST_F(WholePlan, RecomputationSavesAsPredicted) {
  const std::string file = directory_.path() + "/plan.json";
  const auto kept = [&](const std::string& recompute, const char* key) {
    (void)plan(gpt() + "--ranks 1 --set train.recompute=" + recompute + " --json " + file);
    const auto json = nlohmann::json::parse(test::read_file(file));
    const auto& activations = json["memory"]["stages"][0]["activations"];
    if (key != nullptr) return activations[key].get<double>();
    double sum = 0;
    for (const auto& share : activations["kept"])
      sum += share["bytes"].get<double>();
    return sum;
  };

  EXPECT_EQ(kept("none", "recompute_saves"), 0);
  EXPECT_GT(kept("selective", "recompute_saves"), 0);
  EXPECT_EQ(kept("full", nullptr) + kept("full", "recompute_saves"), kept("none", nullptr));
}

TEST_F(WholePlan, AModelTooLargeForThisMachineTakesNoMemory) {
  const std::string text =
      plan(config("precision: bf16\ndevice: {type: cuda}\n"
                  "model: {family: gpt2, layers: 96, hidden: 12288, heads: 96, context: 2048, "
                  "vocabulary: 50257}\n"
                  "data: {path: none}\ntrain: {global_batch: 1536, micro_batch: 1}\n"
                  "parallel: {tensor: 8, pipeline: 16, zero: 1, sequence: true}\n") +
           "--ranks 1536 --hardware " TRIREME_CONFIGS "/hardware/h100.yaml");

  EXPECT_THAT(text, AllOf(HasSubstr("gpt2 of 175 B"), HasSubstr("page-locked host memory"),
                          HasSubstr("stage 0 (96 ranks)"), HasSubstr("fits into the 80.00 GiB")));
}

TEST_F(WholePlan, APlanThatDoesNotFitNamesTheArenaAndTheNearestLayout) {
  expect_refusal(gpt("55000000") + "--ranks 4 --set train.micro_batch=4", "stage 0 needs",
                 "activations overflow", "the nearest layout that fits",
                 "--set train.micro_batch=");
  expect_refusal(gpt("50100000") + "--ranks 4", "weights overflow", "no layout of 4 ranks fits",
                 "use more ranks");
  expect_refusal(gpt("50100000") + "--ranks 4 --search", "no layout of 4 ranks fits");
}

TEST_F(WholePlan, ANodeWithoutRoomForCopiesOfCheckpointsIsRefused) {
  const std::string command = gpt() + "--ranks 8 --set checkpoint.every_steps=10 ";
  const auto on_nodes_of = [&](const std::string& bytes) {
    test::write_file(directory_.path() + "/machine.yaml",
                     test::with_value(test::small_machine, "cores", "0, memory_bytes: " + bytes));
  };
  on_nodes_of("1e9");
  EXPECT_THAT(plan(command), AllOf(HasSubstr("a node of 953.7 MiB"), HasSubstr("fits into")));
  on_nodes_of("1e6");
  expect_refusal(command, "the ranks of a node need", "a node of test machine has 1.0 MiB",
                 "checkpoint.every_steps: 0");
}

// 8 GPUs with NVLink: a connection takes 12 MiB, a ring has one a channel, a ring and a tree two,
// sums between all pairs one to each peer.
TEST_F(WholePlan, BuffersOfNcclFollowTheTrafficAndItsCap) {
  const std::string file = directory_.path() + "/plan.json";
  const auto nccl = [&](const std::string& set) {
    (void)plan(config("precision: bf16\nmodel: {family: gpt2, layers: 2, hidden: 64, heads: 4, "
                      "context: 32, vocabulary: 256}\ndata: {path: none}\n"
                      "train: {global_batch: 64, micro_batch: 2}\n") +
               "--ranks 8 --hardware " TRIREME_CONFIGS "/hardware/h100.yaml --json " + file + set);
    const auto json = nlohmann::json::parse(test::read_file(file));
    return json["memory"]["stages"][0]["bytes"]["NCCL"].get<double>() / (1 << 20);
  };
  EXPECT_EQ(nccl(""), 16 * 24);  // cta_limits
  EXPECT_EQ(nccl(" --set parallel.reducer=inline"), 16 * 24);
  EXPECT_EQ(nccl(" --set comm.data_ctas=64"), 24 * 24);
  EXPECT_EQ(nccl(" --set comm.max_ctas=2"), 2 * 24);
  EXPECT_EQ(nccl(" --set reproducibility=layout --set parallel.tensor_blocks=1"),
            16 * 12 + 7 * 16 * 12);
  EXPECT_EQ(nccl(" --set parallel.reduce_dtype=compute"), 16 * 12 + 7 * 16 * 12);
  // Gathers have a group of their own.
  EXPECT_EQ(nccl(" --set parallel.zero=3 --set comm.max_ctas=4"), 4 * 24 + 4 * 12);
  EXPECT_EQ(nccl(" --set reproducibility=fast"), 16 * 24 + 256);
}

TEST_F(WholePlan, TheSearchPrintsTenLayoutsThatFit) {
  const std::string text = plan(gpt() + "--ranks 4 --search");

  EXPECT_THAT(text, AllOf(HasSubstr("refused by the config's rules"), HasSubstr("\n10 "),
                          Not(HasSubstr("\n11 ")), HasSubstr("--set parallel.data=")));
}

TEST_F(WholePlan, NodesDecideWhichMessagesLeaveThem) {
  const std::string file = directory_.path() + "/plan.json";
  const auto seconds = [&](const std::string& options) {
    (void)plan(gpt() + options + " --json " + file);
    return nlohmann::json::parse(test::read_file(file))["step_seconds"]["total"].get<double>();
  };

  EXPECT_GT(seconds("--ranks 4 --nodes 2"), seconds("--ranks 4 --nodes 1"));
  EXPECT_EQ(seconds("--nodes 1"), seconds("--ranks 8"));
  expect_refusal(gpt() + "--ranks 8 --nodes 3", "--nodes", "use 4");
}

TEST_F(WholePlan, RefusesImpossibleMachinesAndRanks) {
  expect_refusal(gpt() + "--ranks 3 --set parallel.tensor=2", "3 ranks cannot be split",
                 "multiple of 2");
  expect_refusal(gpt() + "--ranks 5 --set parallel.zero=2", "train.global_batch", "ranks");
  EXPECT_THAT(plan(gpt() + "--ranks 5"), HasSubstr("of data ranks: "));
  expect_refusal(gpt(), "--ranks N");
  const std::string file = gpt().substr(0, gpt().find("--hardware"));
  expect_refusal(file + "--ranks 2 --search", "a search needs a machine", "configs/hardware");
  expect_refusal(file + "--nodes 2", "--nodes needs a machine");
  expect_refusal(file + "--ranks 2 --token-budget 1e9", "--token-budget needs a machine");
  expect_refusal(file, "--ranks N");
  expect_refusal(file + "--ranks 2 --hardware " + directory_.path() + "/none.yaml", "none.yaml");
  test::write_file(directory_.path() + "/broken.yaml", "name: x\ndevice: {memory_bytes: many}\n");
  expect_refusal(file + "--ranks 2 --hardware " + directory_.path() + "/broken.yaml",
                 "broken.yaml:2: device.memory_bytes");
}

TEST_F(WholePlan, RefusesBudgetsThatAreNoNumbers) {
  for (const char* const budget : {"nan", "-nan", "inf", "-1", "0", "1e999", "1e9x", ""}) {
    EXPECT_THROW((void)plan(gpt() + "--ranks 4 --token-budget=" + budget), CLI::ParseError)
        << budget;
  }
}

TEST_F(WholePlan, ReportsMemoryWithoutAMachine) {
  const std::string with = directory_.path() + "/with.json", file = gpt();
  const std::string without = directory_.path() + "/without.json";
  const std::string alone = file.substr(0, file.find("--hardware"));
  (void)plan(file + "--ranks 4 --json " + with);

  const std::string text = plan(alone + "--ranks 4 --json " + without);

  EXPECT_THAT(text, AllOf(HasSubstr("buffers per rank"), HasSubstr("stage 0 (4 ranks)"),
                          HasSubstr("--hardware FILE says whether it fits"),
                          HasSubstr("their memory, which is not predicted"),
                          Not(HasSubstr("step time")), Not(HasSubstr("framework"))));
  const auto there = nlohmann::json::parse(test::read_file(with));
  const auto here = nlohmann::json::parse(test::read_file(without));
  EXPECT_EQ(here["memory"]["stages"][0]["buffers"], there["memory"]["stages"][0]["buffers"]);
  EXPECT_EQ(here["flops_per_step"], there["flops_per_step"]);
  EXPECT_FALSE(here.contains("step_seconds"));
  EXPECT_TRUE(here["hardware"].is_null());
  EXPECT_THAT(
      plan(alone + "--ranks 4 --set device.type=cuda --set precision=auto"),
      AllOf(HasSubstr("parameters in bf16"), HasSubstr("auto is planned as precision: bf16"),
            HasSubstr("without the memory of CUDA and its libraries")));
}

TEST_F(WholePlan, MatmulsThatLeaveNoRoomForLinksTakeASecondWave) {
  const auto planned = [&](const std::string& set) {
    const std::string file = directory_.path() + "/plan.json";
    plan(TRIREME_CONFIGS "/gpt2_124m.yaml --ranks 2 --set parallel.pipeline=2 " + set +
         " --hardware " TRIREME_CONFIGS "/hardware/h100.yaml --json " + file);
    return nlohmann::json::parse(test::read_file(file));
  };
  const auto few = planned(""), choice = planned("--set comm.link_ctas=64");

  EXPECT_EQ(few["nccl"][0]["role"], "link");
  EXPECT_EQ(few["nccl"][0]["thread_blocks"], 2);
  EXPECT_EQ(few["nccl"][0]["multiprocessors_left"], 2);
  EXPECT_NEAR(few["nccl"][0]["matmul_slowdown"], 132.0 / 130, 1e-9);
  EXPECT_EQ(choice["nccl"][0]["matmul_slowdown"], 2.0);
  EXPECT_EQ(choice["nccl"][0]["thread_blocks"], 16);
  EXPECT_LT(few["step_seconds"]["forward"], choice["step_seconds"]["forward"]);
  EXPECT_GT(few["step_seconds"]["pipeline_exposed"], choice["step_seconds"]["pipeline_exposed"]);
  const auto layout = planned("--set reproducibility=layout");
  const auto left = planned("--set reproducibility=layout --set comm.max_ctas=2");
  EXPECT_EQ(layout["nccl"][0]["matmul_slowdown"], 2.0);
  EXPECT_EQ(left["nccl"][0]["matmul_slowdown"], few["nccl"][0]["matmul_slowdown"]);
}

// Whether or not this build has the cuda backend.
TEST_F(WholePlan, ResNetsForGpusNeedNoCudaInTheBuild) {
  const std::string file = directory_.path() + "/plan.json";

  const std::string text =
      plan(TRIREME_CONFIGS "/resnet50_imagenet.yaml --ranks 8 --hardware " TRIREME_CONFIGS
                           "/hardware/h100.yaml --json " +
           file);

  EXPECT_THAT(text, AllOf(HasSubstr("in bf16 on 8 rank(s)"), HasSubstr("fits into the 80.00 GiB")));
  const auto json = nlohmann::json::parse(test::read_file(file));
  EXPECT_EQ(json["device"], "cuda");
  // The plan's scratch includes cuDNN's limit for one convolution.
  EXPECT_GT(json["memory"]["stages"][0]["activations"]["scratch"], 64 << 20);
}

TEST_F(WholePlan, PlansTheDeviceAndThePrecisionOfTheMachine) {
  const std::string machine = directory_.path() + "/machine.yaml";
  const std::string file = gpt() + "--ranks 2 --set precision=auto ";

  EXPECT_THAT(plan(file),
              AllOf(HasSubstr("parameters in bf16"),
                    HasSubstr("precision: bf16, device.type: cpu (as on test machine")));
  std::string text = test::small_machine;
  text.erase(text.find("bf16: 1e11, "), 12);
  test::write_file(machine, text);
  EXPECT_THAT(plan(file), HasSubstr("parameters in fp32"));
  expect_refusal(file + "--set device.type=cuda", "device.type", "test machine", "use auto or cpu");
  test::write_file(machine, test::without_cores());
  expect_refusal(file + "--set device.type=cpu", "device.type", "use auto or cuda");
  EXPECT_THAT(plan(file + "--set device.type=cuda"), HasSubstr("parameters in bf16"));
}

class PlannedFailures : public WholePlan {
 protected:
  // Plans a long run on the small machine with that reliability.
  nlohmann::json fail_every(const std::string& hours, const std::string& bandwidth,
                            const std::string& more = "") {
    const std::string config = gpt(), file = directory_.path() + "/plan.json";
    test::write_file(directory_.path() + "/machine.yaml",
                     test::small_machine + "reliability: {mtbf_hours: " + hours +
                         ", restart_seconds: 60, checkpoint_bandwidth: " + bandwidth + "}\n");
    text = plan(config + "--ranks 4 --token-budget 1e10 --json " + file + " " + more);
    return nlohmann::json::parse(test::read_file(file))["goodput"];
  }
  std::string text;
};

TEST_F(PlannedFailures, GoodputIsThatOfTheBestIntervalAndOfTheConfigs) {
  const auto goodput = fail_every("40", "1e6", "--set checkpoint.every_steps=100");

  EXPECT_EQ(goodput["mtbf_seconds"], 36000);
  const double save = goodput["checkpoint_seconds"];
  EXPECT_NEAR(save, 12 * 218496 / 4 / 1e6, 1e-9);
  const double best = goodput["best"]["interval_seconds"];
  EXPECT_NEAR(goodput["best"]["goodput"], plan::expected_goodput(best, save, 36000, 60), 1e-12);
  EXPECT_NEAR(best, std::sqrt(2 * save * 36000), 0.05 * best);
  const double configured = goodput["configured"]["goodput"];
  EXPECT_EQ(goodput["configured"]["every_steps"], 100);
  EXPECT_LT(configured, goodput["best"]["goodput"]);
  // The simulation meets the closed form.
  const double wall = goodput["best"]["wall_seconds"];
  EXPECT_NEAR(goodput["simulated"]["wall_seconds"]["median"], wall, 0.03 * wall);
  EXPECT_THAT(text, AllOf(HasSubstr("failures: one in 10.0 hours (4 rank(s), 40 hours each)"),
                          HasSubstr("best checkpoint interval: "), HasSubstr("as configured: "),
                          HasSubstr("every 100 steps: goodput"), HasSubstr("simulated 51 times")));
}

TEST_F(PlannedFailures, ARunThatSavesNothingDoesNotEndOnAMachineThatFailsOften) {
  const auto goodput = fail_every("0.1", "1e9");

  EXPECT_TRUE(goodput["configured"]["every_steps"].is_null());
  EXPECT_LT(goodput["configured"]["goodput"], 1e-3);
  EXPECT_GT(goodput["best"]["goodput"], 0.2);
  EXPECT_THAT(text, HasSubstr("as configured: failures undo all work: the run never ends"));
}

TEST_F(PlannedFailures, NamesMissingPartsOfTheDescription) {
  EXPECT_TRUE(fail_every("40", "0")["best"].is_null());
  EXPECT_THAT(text, HasSubstr("has no reliability.checkpoint_bandwidth"));
  EXPECT_TRUE(fail_every("0", "0").is_null());
  EXPECT_THAT(text, HasSubstr("failures: unknown, test machine has no reliability.mtbf_hours"));
}

}  // namespace
}  // namespace trireme
