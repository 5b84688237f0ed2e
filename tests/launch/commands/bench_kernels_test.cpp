// SPDX-License-Identifier: Apache-2.0
// `trireme bench kernels` inside the test's own process, which is linked without the CUDA back end:
// operations, bytes and messages, but no launches (tests/launch/emulated/kernel_counts_test.cpp).
#include <gmock/gmock.h>

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include "launch/cli/commands.h"
#include "runtime/base/file.h"
#include "tests/support/command.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;

std::string bench(const std::string& arguments) {
  CLI::App app;
  add_bench_kernels(app);
  testing::internal::CaptureStdout();
  try {
    app.parse("kernels " + arguments);
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  return testing::internal::GetCapturedStdout();
}

class BenchKernels : public testing::Test {
 protected:
  Json rows(const std::string& arguments) {
    const std::string file = directory_.path() + "/rows.json";
    bench(arguments + " --json " + file);
    return Json::parse(read_whole_file(file, 1 << 24, ExitCode::internal));
  }
  test::TemporaryDirectory directory_;
};

const Json& row(const Json& all, const std::string& pass, const std::string& operation) {
  for (const Json& each : all["operations"]) {
    if (each["pass"] == pass && each["operation"] == operation) return each;
  }
  throw std::runtime_error("no row of " + operation);
}

TEST_F(BenchKernels, WithoutLaunchesSaysHowToCountThem) {
  EXPECT_THAT(bench("configs/gpt_tiny.yaml"),
              AllOf(HasSubstr("layer_norm_forward"), HasSubstr("per micro-batch"),
                    HasSubstr("Launches need the CUDA back end"), HasSubstr("--preset cuda")));
}

// On an H100, whose 132 multiprocessors the description has.
TEST_F(BenchKernels, SaysWhatMatmulsLoseBesideEachRolesMessages) {
  const std::string job =
      "configs/gpt_tiny.yaml --ranks 8 --set device.type=cuda --set parallel.data=2 "
      "--set parallel.tensor=2 --set parallel.pipeline=2 --set parallel.zero=2 ";

  EXPECT_THAT(bench(job),
              AllOf(HasSubstr("NCCL for link: at most 2 thread blocks a call, matmuls leave 2 "
                              "multiprocessors: x1.02 beside them\n"),
                    HasSubstr("NCCL for data: at most 8 thread blocks a call, matmuls leave 8 "
                              "multiprocessors: x1.06 beside them\n"),
                    HasSubstr("NCCL for gather: at most 8 thread blocks a call, matmuls leave 8 "
                              "multiprocessors: x1.06 beside them\n"),
                    HasSubstr("NCCL for tensor: its own choice, about 24 thread blocks a call, "
                              "matmuls leave none: x2.00 beside them\n")));
  EXPECT_THAT(bench(job + "--set comm.link_ctas=64 --set comm.data_ctas=12"),
              AllOf(HasSubstr("NCCL for link: its own choice, about 16 thread blocks a call, "
                              "matmuls leave none: x2.00 beside them\n"),
                    HasSubstr("at most 12 thread blocks a call, matmuls leave 12")));
  EXPECT_THAT(bench("configs/gpt_tiny.yaml"), testing::Not(HasSubstr("NCCL for")));
  const Json roles = rows(job)["roles"];
  ASSERT_EQ(roles.size(), 4U);
  EXPECT_EQ(roles[1]["role"], "data");
  EXPECT_EQ(roles[1]["thread_blocks"], 8);
  EXPECT_EQ(roles[1]["matmuls_leave"], 8);
  EXPECT_NEAR(roles[3]["matmul_slowdown"].get<double>(), 2, 0.01);
}

// y(B T, 4 hidden) = x w^T + bias, and so on.
TEST_F(BenchKernels, CountsTheBytesAndFlopsOfAMicroBatch) {
  const Json all = rows(
      "configs/gpt_tiny.yaml --set model.layers=1 --set train.micro_batch=2 "
      "--set train.global_batch=2 --set precision=bf16");

  const double rows_of_batch = 2 * 128, hidden = 192;
  const Json gelu = row(all, "forward", "activation_forward");
  EXPECT_EQ(gelu["read_bytes"], rows_of_batch * 4 * hidden * 2);
  EXPECT_EQ(gelu["written_bytes"], gelu["read_bytes"]);
  // w has 3, 1, 4 and 4 times hidden^2 elements.
  double flops = 0;
  for (const Json& each : all["operations"]) {
    if (each["operation"] == "linear_forward" && each["layer"] == "blocks") flops = each["flops"];
  }
  EXPECT_EQ(flops, 2 * rows_of_batch * 12 * hidden * hidden);
  EXPECT_TRUE(gelu["launches"].is_null());
}

TEST_F(BenchKernels, NamesTheMessagesOfDataParallelRanks) {
  const std::string command = "configs/gpt2_124m.yaml --ranks 8";
  const Json all = rows(command);

  const Json& first = all["messages"][0];
  EXPECT_EQ(first["name"], "all_reduce f32 (data)");
  EXPECT_NEAR(first["sent_bytes"].get<double>(), 2.0 * 7 / 8 * 4 * 124.5e6, 2e6)
      << "every gradient once, in f32, around a ring and back";
  EXPECT_THAT(bench(command + " --set parallel.reduce_dtype=compute"),
              AllOf(HasSubstr("messages of a step"), HasSubstr("\nall_to_all bf16 (data) "),
                    HasSubstr("\nall_gather bf16 (data) ")));
}

TEST_F(BenchKernels, RefusesAMachineWithoutGpus) {
  test::expect_error(
      ExitCode::config,
      [] { (void)bench("configs/gpt_tiny.yaml --hardware configs/hardware/cpu_example.yaml"); },
      "cpu_example.yaml", "without GPUs");
}

}  // namespace
}  // namespace trireme
