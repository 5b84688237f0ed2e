// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

#include "launch/bench/kernels/step_count.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/plan/layout_plan.h"
#include "runtime/base/atomic_file.h"

namespace trireme {
namespace {

struct KernelBenchArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string hardware;
  int ranks = 1;
  std::string json;
};

// The option's, the config's, or the described H100 beside the config; independent of the current
// directory.
std::string hardware_file(const KernelBenchArguments& arguments, const Config& config) {
  if (!arguments.hardware.empty()) return arguments.hardware;
  if (!config.parallel.hardware.empty()) return config.parallel.hardware;
  const auto beside = std::filesystem::path(arguments.config).parent_path() / "hardware/h100.yaml";
  std::error_code ignored;
  if (!std::filesystem::exists(beside, ignored)) {
    fail(ExitCode::config,
         "bench kernels: the GPU is unknown: {} does not exist and parallel.hardware is empty; "
         "give --hardware FILE, see configs/hardware",
         beside.string());
  }
  return beside.string();
}

void bench_kernels(const KernelBenchArguments& arguments) {
  Provenance where;
  const Config given = load_config(arguments.config, arguments.overrides, &where);
  const std::string file = hardware_file(arguments, given);
  const plan::Hardware hardware = plan::load_hardware(file);
  if (described_device(hardware) != DeviceType::cuda) {
    fail(ExitCode::config,
         "bench kernels: --hardware {}: {} is a machine without GPUs (node.cores), but kernels are "
         "counted for GPUs, see configs/hardware",
         file, hardware.name);
  }
  check_device_type(given, hardware, where);
  const Config config =
      resolve_config(given, planned_environment(arguments.ranks, hardware), &where);
  const kernel_bench::StepCount count = kernel_bench::count_step(config);
  if (!arguments.json.empty()) {
    write_file(arguments.json, kernel_bench::to_json(count, config, hardware), ExitCode::config);
  }
  fmt::print("{}", kernel_bench::describe(count, config, hardware));
}

}  // namespace

void add_bench_kernels(CLI::App& bench_command) {
  auto* const command = bench_command.add_subcommand(
      "kernels", "Count what a training step asks of one GPU, without running it");
  const auto arguments = std::make_shared<KernelBenchArguments>();
  add_config_options(*command, arguments->config, arguments->overrides)->required();
  command->add_option("--hardware", arguments->hardware,
                      "Description of the machine, for the times beside the counts (default: "
                      "parallel.hardware, or hardware/h100.yaml beside the config)");
  add_value(*command, "--ranks", arguments->ranks, "Ranks that the config would run on",
            integer_between(1, 1 << 20));
  command->add_option("--json", arguments->json, "Write every row to this file as well");
  command->footer(
      "Example: trireme bench kernels configs/gpt2_124m.yaml --set train.micro_batch=64\n"
      "Needs no GPU. Bytes are those that the operations declare; kernels and library calls are\n"
      "counted by the host code that would launch them, in builds with the CUDA back end.");
  on_one_process(*command, [arguments] { bench_kernels(*arguments); });
}

}  // namespace trireme
