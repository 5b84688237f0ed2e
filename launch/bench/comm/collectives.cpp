// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/comm/collectives.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/bench/comm/links.h"
#include "launch/bench/machine_check.h"
#include "launch/job/job_groups.h"
#include "models/config.h"
#include "runtime/base/atomic_file.h"
#include "runtime/comm/watchdog/watched.h"
#include "runtime/telemetry/environment.h"

namespace trireme::comm_bench {
namespace {

constexpr double slowest_call_seconds = 600;  // for the slowest call

struct SizeRow {
  std::int64_t bytes = 0;
  CommTime time;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  // bytes per second
};

std::vector<std::int64_t> sizes(const CollectiveOptions& arguments, Verb verb, int ranks) {
  std::vector<std::int64_t> all;
  for (std::int64_t bytes = arguments.min_bytes;; bytes *= arguments.factor) {
    const std::int64_t size = size_of(verb, ranks, std::min(bytes, arguments.max_bytes));
    if (all.empty() || size != all.back()) all.push_back(size);
    if (bytes >= arguments.max_bytes) return all;
  }
}

void print_head(const Communicator& group) {
  fmt::print("group {}: {} ranks\n  {:<14} {:>12} {:>12} {:>12} {:>12} {:>10} {:>10} {:>6}\n",
             group.name(), group.size(), "collective", "size (B)", "count", "median (us)",
             "best (us)", "alg (MB/s)", "bus (MB/s)", "wrong");
}

void print_row(Verb verb, const SizeRow& row) {
  fmt::print("  {:<14} {:>12} {:>12} {:>12.1f} {:>12.1f} {:>10.1f} {:>10.1f} {:>6}\n",
             title_of(verb), row.bytes, row.bytes / static_cast<std::int64_t>(sizeof(float)),
             1e6 * row.time.median, 1e6 * row.time.fastest, 1e-6 * row.algorithm_bandwidth,
             1e-6 * row.bus_bandwidth, row.time.wrong);
  std::fflush(stdout);
}

nlohmann::json describe(Verb verb, const std::vector<SizeRow>& rows, const LinkFit& fit) {
  nlohmann::json lines = nlohmann::json::array();
  for (const SizeRow& row : rows) {
    lines.push_back({{"bytes", row.bytes},
                     {"median_seconds", row.time.median},
                     {"fastest_seconds", row.time.fastest},
                     {"algorithm_bytes_per_second", row.algorithm_bandwidth},
                     {"bus_bytes_per_second", row.bus_bandwidth},
                     {"wrong", row.time.wrong}});
  }
  return {{"collective", title_of(verb)},
          {"alpha_seconds", fit.latency},
          {"beta_bytes_per_second", fit.bandwidth},
          {"sizes", std::move(lines)}};
}

// Rank 0 prints; otherwise all ranks have the same result.
nlohmann::json bench_group(const JobGroups& job, Communicator& group,
                           const CollectiveOptions& arguments, std::int64_t& wrong) {
  const bool speaks = job.world->rank() == 0;
  if (speaks) print_head(group);
  nlohmann::json collectives = nlohmann::json::array();
  for (const Verb verb : comm_bench::collectives) {
    std::vector<SizeRow> rows;
    std::vector<TimedBytes> times;
    for (const std::int64_t bytes : sizes(arguments, verb, group.size())) {
      SizeRow row{.bytes = bytes,
                  .time = measure(group, *job.world, *job.device, verb, bytes,
                                  {.repeats = arguments.repeats})};
      row.algorithm_bandwidth = static_cast<double>(bytes) / row.time.median;
      row.bus_bandwidth = row.algorithm_bandwidth * bus_factor(verb, group.size());
      if (speaks) print_row(verb, row);
      wrong += row.time.wrong;
      times.push_back({static_cast<double>(bytes), row.time.median});
      rows.push_back(row);
    }
    const LinkFit fit = fit_link(times);
    if (speaks) {
      fmt::print("  {:<14} alpha {:.1f} us, beta {:.1f} MB/s: t = alpha + size / beta\n", "",
                 1e6 * fit.latency, 1e-6 * fit.bandwidth);
    }
    collectives.push_back(describe(verb, rows, fit));
  }
  return {{"group", group.name()}, {"ranks", group.size()}, {"collectives", collectives}};
}

void print_link(std::string_view place, const std::optional<plan::Link>& link) {
  if (link) {
    fmt::print("  {:<14} alpha {:.2f} us, beta {:.1f} MB/s\n", place, 1e6 * link->latency,
               1e-6 * link->bandwidth);
  } else {
    fmt::print("  {:<14} not measured: this job has no such ranks\n", place);
  }
}

void update_hardware(const JobGroups& job, const CollectiveOptions& arguments) {
  const auto links = measure_links(*job.world, *job.device);
  if (job.world->rank() != 0) return;
  update_hardware_file(arguments.hardware_file, links);
  fmt::print("links of {}, by all-reduces of {} ranks per host; domains are hosts of {} ranks\n",
             arguments.hardware_file, links.ranks_per_host,
             plan::load_hardware(arguments.hardware_file).links.domain);
  print_link("inside a host", links.inside);
  print_link("between hosts", links.between);
}

}  // namespace

void bench_collectives(const CollectiveOptions& arguments) {
  if (arguments.min_bytes >= arguments.max_bytes) {
    fail(ExitCode::config, "bench machine --links: --min-bytes {} is not below --max-bytes {}",
         arguments.min_bytes, arguments.max_bytes);
  }
  const RankProcess process;
  std::optional<Config> config;
  if (!arguments.config.empty()) {
    Provenance where;
    const Config given = load_config(arguments.config, arguments.overrides, &where);
    config = resolve_config(given, process.environment(), &where);
  }
  const Config* const resolved = config ? &*config : nullptr;
  const auto host_world = make_watched(process.mpi.world(),
                                       {.deadline_seconds = slowest_call_seconds, .directory = {}});
  const JobGroups job(*host_world, make_job_device(process.mpi, resolved), resolved,
                      config.value_or(default_config()).reproducibility);
  const bool speaks = job.world->rank() == 0;
  if (job.world->size() == 1)
    fail(ExitCode::config,
         "bench machine --links: needs two ranks or more; start it with mpirun -np N");
  if (!arguments.hardware_file.empty())
    (void)plan::load_hardware(arguments.hardware_file);  // fails early, before minutes of measuring
  const MachineCheck machine(arguments.accept_load);
  nlohmann::json groups = nlohmann::json::array();
  std::int64_t wrong = 0;
  for (Communicator* const group : job.all())
    groups.push_back(bench_group(job, *group, arguments, wrong));
  if (speaks && !arguments.json_file.empty()) {
    const nlohmann::json report{{"version", version_text()},
                                {"ranks", job.world->size()},
                                {"device", name_of(job.device->type())},
                                {"groups", groups}};
    write_file(arguments.json_file, report.dump(2) + "\n", ExitCode::internal);
  }
  std::fflush(stdout);
  static_cast<void>(machine.finish(*job.world, arguments.hardware_file));
  if (!arguments.hardware_file.empty()) update_hardware(job, arguments);
  job.world->barrier();
  if (wrong > 0)
    fail(ExitCode::communication, "bench machine --links: {} elements of the results are wrong",
         wrong);
}

}  // namespace trireme::comm_bench
