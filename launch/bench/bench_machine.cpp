// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "launch/bench/comm/collectives.h"
#include "launch/bench/comm/links.h"
#include "launch/bench/machine_check.h"
#include "launch/bench/model/calibrate.h"
#include "launch/bench/model/profile.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/job/job_groups.h"
#include "models/config.h"
#include "models/gpt/gpt.h"
#include "runtime/base/atomic_file.h"
#include "runtime/comm/host_stream.h"
#include "runtime/comm/watchdog/watched.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

constexpr double slowest_work_seconds = 600;
// Limit of ranks per core that share it.
constexpr int max_ranks_per_core = 32;

struct MachineArguments : comm_bench::CollectiveOptions {
  std::string out;
  double seconds = 3;
  bool links = false, profile = false;
};

struct ModelTimes {
  model_bench::StepSeconds alone;                   // of rank 0, while the others wait
  model_bench::StepSeconds together;                // of the slowest rank, while all compute
  std::optional<model_bench::TimedModel> larger{};  // of rank 0, while the others wait
};

double largest_of_all(Communicator& world, double value) {
  const HostStream stream;
  Tensor tensor{reinterpret_cast<std::byte*>(&value), DType::f64, Shape{1}};
  world.all_reduce(*stream, tensor, tensor, ReduceOp::max);
  return value;
}

ModelTimes time_model(Communicator& world, Device& device, const Config& config, double seconds) {
  ModelTimes measured;
  if (world.rank() == 0) {
    measured.alone = model_bench::time_steps(device, config, seconds);
    if (const auto larger = model_bench::larger_model(config))
      measured.larger = {*larger, model_bench::time_steps(device, *larger, seconds)};
  }
  world.barrier();
  if (world.size() == 1) {
    measured.together = measured.alone;
    return measured;
  }
  measured.together = model_bench::time_steps(device, config, seconds);
  for (double* part :
       {&measured.together.forward, &measured.together.backward, &measured.together.optimizer})
    *part = largest_of_all(world, *part);
  return measured;
}

// More ranks than cores take turns; the planner adds that itself.
double crowded_slowdown(const ModelTimes& measured, int ranks, int cores) {
  const double turns = std::max(1.0, static_cast<double>(ranks) / cores);
  const double alone = measured.alone.forward + measured.alone.backward;
  return std::max(1.0, (measured.together.forward + measured.together.backward) / turns / alone);
}

// On rank 0. Plans in fp32 need its rate too, best measured with the larger model.
void calibrate(plan::Hardware& hardware, Device& device, const Config& config,
               const ModelTimes& measured, double seconds) {
  std::vector<model_bench::TimedModel> models{{config, measured.alone}};
  if (measured.larger) models.push_back(*measured.larger);
  const DType dtype = compute_dtype(config.precision);
  model_bench::calibrate(hardware, models, model_bench::time_matmuls(device, dtype),
                         model_bench::time_launch(device));
  if (config.precision == Precision::fp32) return;
  model_bench::TimedModel single = models.back();
  single.config.precision = Precision::fp32;
  single.seconds = model_bench::time_steps(device, single.config, seconds);
  model_bench::calibrate_peak(hardware, single);
}

// The links inside a host and between hosts. One rank has none to measure; on one host, links
// between hosts are assumed to be equal.
void measure_links(plan::Hardware& hardware, const JobGroups& job) {
  constexpr plan::Link unmeasured{.latency = 1e-5, .bandwidth = 1e9};
  comm_bench::MeasuredLinks links;
  if (job.world->size() > 1) links = comm_bench::measure_links(*job.world, *job.device);
  hardware.links.inside = links.inside.value_or(links.between.value_or(unmeasured));
  hardware.links.between = links.between.value_or(hardware.links.inside);
}

plan::Hardware describe_node(const Device& device, const MpiEnvironment& mpi) {
  plan::Hardware hardware;
  const HostCpu cpu = host_cpu();
  const bool cuda = device.type() == DeviceType::cuda;
  const int cores = usable_cores(cpu);
  const std::vector<GpuFacts> gpus = cuda ? cuda_facts().gpus : std::vector<GpuFacts>();
  hardware.name = cuda ? gpus.front().name : fmt::format("{} x {}", cores, cpu.model);
  hardware.node = {
      .ranks = cuda ? mpi.local_size() : std::max(mpi.local_size(), max_ranks_per_core * cores),
      .cores = cuda ? 0 : cores};
  hardware.links.domain = hardware.node.ranks;
  hardware.links.rails = cuda ? mpi.local_size() : 1;
  hardware.links.overlap = cuda ? 1 : 0;
  const HostMemory memory = host_memory();
  const std::uint64_t host = memory.limit_bytes > 0
                                 ? std::min(memory.limit_bytes, memory.total_bytes)
                                 : memory.total_bytes;
  // Ranks share a GPU where there are more of them.
  const int count = static_cast<int>(gpus.size());
  const int sharing = cuda ? (mpi.local_size() + count - 1) / count : mpi.local_size();
  hardware.device.memory_bytes =
      static_cast<double>(cuda ? gpus.front().memory_bytes : host) / sharing;
  if (cuda) {
    hardware.device.multiprocessors = gpus.front().processors;
    hardware.device.compute_capability = gpus.front().capability;
  }
  return hardware;
}

void print_summary(const ModelTimes& measured, const plan::Hardware& hardware, int ranks) {
  fmt::print(
      "{} steps on one rank: forward {:.2f} ms, backward {:.2f} ms, optimizer {:.2f} ms\n"
      "{} ranks at once: forward {:.2f} ms, backward {:.2f} ms; slowdown {:.3f}\n"
      "memory {:.2f} GB/s, launch {:.2f} us, matmuls reach {:.1f} % of {:.1f} GFLOP/s\n",
      measured.alone.steps, 1e3 * measured.alone.forward, 1e3 * measured.alone.backward,
      1e3 * measured.alone.optimizer, ranks, 1e3 * measured.together.forward,
      1e3 * measured.together.backward, hardware.node.crowded_slowdown,
      1e-9 * hardware.device.memory_bandwidth, 1e6 * hardware.device.launch_seconds,
      100 * hardware.efficiency.matmul,
      1e-9 * *std::ranges::max_element(hardware.device.peak_flops));
  if (measured.larger) {
    const model_bench::StepSeconds& larger = measured.larger->seconds;
    fmt::print(
        "a layer of {} on one rank: forward {:.2f} ms, backward {:.2f} ms; matmuls of {:.0f} "
        "reach half\n",
        measured.larger->config.model.as<GptOptions>().hidden, 1e3 * larger.forward,
        1e3 * larger.backward, hardware.efficiency.half_dimension);
  }
  if (ranks > 1) {
    fmt::print("all-reduce: alpha {:.1f} us, beta {:.1f} MB/s\n",
               1e6 * hardware.links.inside.latency, 1e-6 * hardware.links.inside.bandwidth);
  }
}

void describe_machine(const MachineArguments& arguments) {
  const RankProcess process;
  Provenance where;
  const Config given = load_config(arguments.config, arguments.overrides, &where);
  const Config config = model_bench::on_one_rank(given, process.environment(), where);
  const auto host_world = make_watched(process.mpi.world(),
                                       {.deadline_seconds = slowest_work_seconds, .directory = {}});
  const JobGroups job(*host_world, make_job_device(process.mpi, &config), nullptr,
                      config.reproducibility);
  Communicator& world = *job.world;
  Device& device = *job.device;
  const int ranks = world.size();

  if (arguments.profile) {
    if (ranks > 1)
      fail(ExitCode::config, "bench machine --profile: runs on one rank, not {}", ranks);
    fmt::print("{}", to_text(model_bench::profile_step(device, config, arguments.seconds)));
    return;
  }
  plan::Hardware hardware = describe_node(device, process.mpi);
  const MachineCheck machine(arguments.accept_load);
  const ModelTimes measured = time_model(world, device, config, arguments.seconds);
  hardware.straggler_deviation = measured.alone.stddev;
  if (world.rank() == 0) {
    calibrate(hardware, device, config, measured, arguments.seconds);
    if (hardware.node.cores > 0)
      hardware.node.crowded_slowdown = crowded_slowdown(measured, ranks, hardware.node.cores);
  }
  world.barrier();
  measure_links(hardware, job);
  if (world.rank() == 0) print_summary(measured, hardware, ranks);
  std::fflush(stdout);
  const std::string load = machine.finish(world, arguments.out);
  if (world.rank() != 0) return;
  const std::string text = plan::to_yaml(
      hardware,
      fmt::format("Measured by trireme bench machine {} on {} ranks.{}{}", arguments.config, ranks,
                  ranks > 1 ? "" : "\nThe links were not: start it with mpirun.",
                  load.empty() ? "" : "\nNot on a quiet machine: " + load + "."));
  if (arguments.out.empty()) {
    fmt::print("{}", text);
  } else {
    write_file(arguments.out, text, ExitCode::internal);
  }
}

}  // namespace

void add_bench_machine(CLI::App& bench_command) {
  auto* const command = bench_command.add_subcommand(
      "machine", "Measure this machine: a config's model and the collectives, for the planner");
  const auto arguments = std::make_shared<MachineArguments>();
  auto* const config =
      add_config_options(*command, arguments->config, arguments->overrides,
                         "Config whose model to time, or with --links whose device and process "
                         "groups to use (without: the world on the CPU)");
  auto* const out =
      command->add_option("--out", arguments->out, "Hardware file to write (default: printed)");
  auto* const seconds =
      add_value(*command, "--seconds", arguments->seconds, "How long to train for each measurement",
                number_between(0, 3600));
  auto* const profile =
      command
          ->add_flag("--profile", arguments->profile,
                     "Print how the time of a step without CUDA graphs is spent, by operation, and "
                     "measure nothing else")
          ->excludes(out);
  auto* const links =
      command
          ->add_flag("--links", arguments->links,
                     "Measure latency and bandwidth of every collective on each process group, and "
                     "nothing else")
          ->excludes(out)
          ->excludes(seconds)
          ->excludes(profile);
  const auto add_size = [&](const char* name, auto& value, const char* what, auto low, auto high) {
    add_value(*command, name, value, what, integer_between(low, high))->needs(links);
  };
  constexpr std::int64_t least = 4, most = std::int64_t{1} << 32;
  add_size("--min-bytes", arguments->min_bytes, "Smallest message", least, most);
  add_size("--max-bytes", arguments->max_bytes, "Largest message", least, most);
  add_size("--factor", arguments->factor, "From one size to the next", std::int64_t{2},
           std::int64_t{1} << 20);
  add_size("--repeats", arguments->repeats, "Measurements per size; the median counts", 1, 10000);
  command->add_option("--json", arguments->json_file, "Write the measurements to this file, too")
      ->needs(links);
  command
      ->add_option("--hardware", arguments->hardware_file,
                   "Then measure the links as for --out, and replace those of this hardware file")
      ->needs(links);
  add_load_option(*command, arguments->accept_load);
  command->footer(
      "Example: mpirun -np 2 trireme bench machine configs/gpt_tiny.yaml --out this_machine.yaml\n"
      "Example: mpirun -np 4 trireme bench machine --links configs/gpt_tiny.yaml --set "
      "parallel.tensor=2 --max-bytes 4194304\n"
      "Start as many ranks as the machine has cores or GPUs.");
  command->callback([arguments, config] {
    if (arguments->links) return comm_bench::bench_collectives(*arguments);
    if (config->empty())
      fail(ExitCode::config, "bench machine: give a config with the model to time, or --links");
    describe_machine(*arguments);
  });
}

}  // namespace trireme
