// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <algorithm>

#include <memory>
#include <optional>
#include <set>

#include "launch/cli/shared_options.h"
#include "launch/doctor/host_check.h"
#include "launch/doctor/job_check.h"
#include "launch/doctor/judge.h"
#include "launch/engine/data_sets.h"
#include "launch/engine/memory_fit.h"
#include "launch/engine/options.h"
#include "launch/job/job_groups.h"
#include "models/config.h"
#include "runtime/base/environment.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/comm/watchdog/watched.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

constexpr double slowest_probe_seconds = 60;  // for the slowest probe

struct DoctorArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string hardware;
  bool json = false;
};

// The config as this job would run it, or a finding why it cannot.
std::optional<Config> read_config(doctor::Findings& findings, const RankProcess& process,
                                  const DoctorArguments& arguments) {
  if (arguments.config.empty()) return {};
  try {
    Provenance where;
    Config given = load_config(arguments.config, arguments.overrides, &where);
    settle_epochs(given, where, process);
    Config config = resolve_config(given, process.environment(), &where);
    findings.fine("config",
                  fmt::format("{}: {}, {}, {}", arguments.config, mesh_text(config.parallel),
                              name_of(config.device.type), name_of(config.precision)));
    return config;
  } catch (const Error& error) {
    findings.problem("config", error.what(), "");
    return {};
  }
}

void check_dataset(doctor::Findings& findings, const Config& config, DataPart part) {
  try {
    const auto dataset = open_dataset(config, part);
    findings.fine("data",
                  fmt::format("{}: {} samples", data_text(config.data, part), dataset->size()));
  } catch (const Error& error) {
    findings.problem("data", error.what(), "");
  }
}

// The groups of training, on its device.
void check_collectives(doctor::Findings& findings, const RankProcess& process,
                       const std::optional<Config>& config, Communicator& world,
                       const std::vector<std::string>& hosts,
                       const std::optional<plan::Hardware>& hardware) {
  const Config* const resolved = config ? &*config : nullptr;
  std::unique_ptr<Device> device;
  std::string problem;
  try {
    device = make_job_device(process.mpi, resolved);
  } catch (const Error& error) {
    problem = error.what();
    findings.problem(config && config->device.type == DeviceChoice::cuda ? "gpu" : "device",
                     problem, "");
  }
  // All ranks or none.
  const auto problems = gather_texts(world, problem);
  if (std::ranges::any_of(problems, [](const auto& text) { return !text.empty(); })) return;
  const std::optional<DeviceMemory> before = device->memory();
  const JobGroups job(world, std::move(device), resolved,
                      config.value_or(default_config()).reproducibility);
  check_groups(findings, job.mesh, *job.device, hosts, hardware ? &*hardware : nullptr);
  if (!before || !config || world.size() == 1) return;
  const auto here =
      static_cast<int>(std::ranges::count(hosts, hosts[static_cast<std::size_t>(world.rank())]));
  doctor::report_nccl_memory(
      findings,
      nccl_memory_of(*config, nccl_place(*config, cuda_facts(), here, config->device.share),
                     /*training=*/true)
          .device,
      before->free - std::min(before->free, job.device->memory()->free));
}

// Whether the job would compute on the CPU.
bool on_cpu(const Config& config, const CudaFacts& gpus) {
  return config.device.type == DeviceChoice::cpu ||
         (config.device.type == DeviceChoice::automatic && gpus.gpus.empty());
}

int examine(const DoctorArguments& arguments) {
  const RankProcess process;
  std::optional<plan::Hardware> hardware;
  if (!arguments.hardware.empty()) hardware = plan::load_hardware(arguments.hardware);
  const MpiEnvironment& mpi = process.mpi;
  const auto world =
      make_watched(mpi.world(), {.deadline_seconds = slowest_probe_seconds, .directory = {}});
  const auto hosts = gather_texts(*world, host_name());
  const auto host_count = static_cast<int>(std::set(hosts.begin(), hosts.end()).size());
  doctor::Findings findings;
  findings.fine("host", hosts[static_cast<std::size_t>(mpi.rank())]);
  const std::optional<Config> config = read_config(findings, process, arguments);
  const Config settings = config.value_or(default_config());
  doctor::check_libraries(findings, mpi);
  doctor::check_host(findings, mpi, settings);
  doctor::check_gpus(findings, mpi, settings.device.type == DeviceChoice::cuda);
  doctor::check_network(findings, host_count);
  if (mpi.local_rank() == 0) {
    doctor::check_storage(findings, "run directory", settings.run.directory);
    if (config) {
      check_dataset(findings, settings, DataPart::training);
      if (settings.data.has_validation()) check_dataset(findings, settings, DataPart::validation);
    }
  }
  doctor::check_sameness(findings, *world, config ? to_yaml(*config) : "");
  doctor::check_shared(findings, *world, settings.run.directory);
  const CudaFacts gpus = cuda_facts();
  const GpuFacts gpu = doctor::gpu_facts_of_rank(gpus, mpi.local_rank());
  const auto types = gather_texts(*world, doctor::type_of(gpu));
  if (mpi.rank() == 0) doctor::compare_gpus(findings, types, hosts);
  doctor::check_slices(findings, *world, gpu, settings.device.share, hosts);
  doctor::check_clocks(findings, *world, hosts);
  const CoreCrowd crowd = most_crowded(*world);
  if (on_cpu(settings, gpus)) doctor::check_cores(findings, crowd, *world);
  const bool busy = doctor::check_load(findings, *world);
  doctor::check_stragglers(findings, *world, hosts, crowd);
  doctor::check_links(findings, *world, hosts, busy);
  // Data files and mesh are checked only if every rank could read the config.
  const auto readable = gather_texts(*world, arguments.config.empty() || config ? "yes" : "no");
  if (std::ranges::find(readable, "no") == readable.end()) {
    if (config && mpi.local_rank() == 0)
      doctor::check_planned_memory(findings, settings, mpi.rank(), hosts, gpus);
    doctor::check_data_on_hosts(findings, *world, "data.path", settings.data.path);
    for (const NamedSource& source : settings.data.sources) {
      doctor::check_data_on_hosts(findings, *world, "data.sources", source.path);
      doctor::check_data_on_hosts(findings, *world, "data.sources", source.validation_path);
    }
    doctor::check_data_on_hosts(findings, *world, "data.validation_path",
                                settings.data.validation_path);
    check_collectives(findings, process, config, *world, hosts, hardware);
  }

  std::vector<doctor::Findings> by_rank;
  for (const std::string& text : gather_texts(*world, findings.serialized()))
    by_rank.push_back(doctor::Findings::parse(text));
  if (mpi.rank() == 0)
    fmt::print("{}", arguments.json ? doctor::json_table(by_rank) : doctor::table(by_rank));
  std::fflush(stdout);
  world->barrier();  // no rank may end the job before the table is printed
  return doctor::problems(by_rank);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto* const command =
      app.add_subcommand("doctor", "Check this machine or allocation, and report problems");
  const auto arguments = std::make_shared<DoctorArguments>();
  add_config_options(*command, arguments->config, arguments->overrides,
                     "Config file that is to run here; checked with its data and directories");
  command->add_option("--hardware", arguments->hardware,
                      "Hardware file with expected link speeds; see "
                      "configs/hardware and trireme bench machine --links");
  command->add_flag("--json", arguments->json, "Print JSON instead of the table");
  command->footer(
      "Ends with code 2 if it finds a problem, which would make a run fail. Notes are no "
      "problems.\n"
      "Example: launch/mpi_run.sh -np 4 trireme doctor configs/gpt_tiny.yaml");
  command->callback([arguments] {
    const int problems = examine(*arguments);
    if (problems > 0) throw CLI::RuntimeError(static_cast<int>(ExitCode::config));
  });
}

}  // namespace trireme
