// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/job_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "launch/doctor/host_check.h"
#include "launch/doctor/judge.h"
#include "launch/engine/agreement/shared_inputs.h"
#include "launch/engine/memory_fit.h"
#include "runtime/base/checksum.h"
#include "runtime/base/clock.h"
#include "runtime/base/output_directory.h"
#include "runtime/comm/host_stream.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/environment.h"

namespace trireme::doctor {
namespace {

using Clock = std::chrono::steady_clock;

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Tensor one(double& value) {
  return {reinterpret_cast<std::byte*>(&value), DType::f64, Shape{1}};
}

std::vector<double> gather(Communicator& world, double own) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  const HostStream stream;
  world.all_gather(*stream, one(own),
                   {reinterpret_cast<std::byte*>(all.data()), DType::f64, Shape{world.size()}});
  return all;
}

// Seconds for a fixed piece of work, the best of three.
double compute_seconds() {
  constexpr int terms = 20'000'000;
  double best = HUGE_VAL;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto start = Clock::now();
    volatile double sum = 0;
    for (int i = 1; i <= terms; ++i)
      sum = sum * 0.5 + 1;
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace

void check_sameness(Findings& findings, Communicator& world, const std::string& config) {
  if (world.size() == 1) return;
  const auto compare = [&](const std::string& subject, const std::string& own,
                           const std::string& fix) {
    const auto texts = gather_texts(world, own);
    const auto other = std::ranges::find_if(texts, [&](const auto& t) { return t != texts[0]; });
    if (world.rank() != 0) return;
    if (other == texts.end()) {
      findings.fine(subject, "the same on all ranks");
    } else {
      findings.problem(
          subject,
          fmt::format("rank 0 has {}, rank {} has {}", texts[0], other - texts.begin(), *other),
          fix);
    }
  };
  compare("program", version_text(), "install the same build on every host");
  compare("config", fmt::format("XXH3 {:016x}", checksum_of(config)),
          "start all ranks with the same config file and arguments");
}

void check_shared(Findings& findings, Communicator& world, const std::string& directory) {
  if (world.size() == 1) return;
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path place = nearest_directory(directory);
  const std::string name = fmt::format(".trireme-doctor-shared-{}", ::getpid());
  const std::string token = gather_texts(world, (place / name).string())[0];
  try {
    if (world.rank() == 0)
      static_cast<void>(OutputDirectory(place.string(), ExitCode::config).create(name, O_WRONLY));
  } catch (const Error&) {  // it then shows on no host, which is reported
  }
  world.barrier();
  const auto blind = hosts_without(world, token);
  world.barrier();
  if (world.rank() != 0) return;
  fs::remove(token, ignored);
  if (blind.empty()) {
    findings.fine("run directory", fmt::format("{} is visible on every host", place.string()));
  } else {
    findings.problem(
        "run directory",
        fmt::format("{} of rank 0 is not visible on {}", place.string(), fmt::join(blind, ", ")),
        "set run.directory to a directory on a file system that all hosts share");
  }
}

void check_clocks(Findings& findings, Communicator& world, const std::vector<std::string>& hosts) {
  if (world.size() == 1) return;
  constexpr int rounds = 5;
  constexpr double tolerated = 0.1;  // seconds
  const HostStream stream;
  double worst = 0;
  int worst_rank = 0;
  for (int rank = 1; rank < world.size(); ++rank) {
    if (hosts[static_cast<std::size_t>(rank)] == hosts[0]) continue;
    double best_trip = HUGE_VAL, offset = 0;
    for (int round = 0; round < rounds; ++round) {
      double there = 0;
      if (world.rank() == rank) {
        world.recv(*stream, one(there), 0);
        there = wall_clock();
        world.send(*stream, one(there), 0);
      } else if (world.rank() == 0) {
        const double before = wall_clock();
        world.send(*stream, one(there), rank);
        world.recv(*stream, one(there), rank);
        const double after = wall_clock();
        if (after - before < best_trip) {
          best_trip = after - before;
          offset = there - (before + after) / 2;
        }
      }
    }
    if (std::abs(offset) > std::abs(worst)) {
      worst = offset;
      worst_rank = rank;
    }
  }
  if (world.rank() != 0) return;
  const std::string text = fmt::format("at most {:.1f} ms from rank 0's", 1e3 * std::abs(worst));
  if (std::abs(worst) > tolerated) {
    findings.note("clocks",
                  fmt::format("{}: {}", text, hosts[static_cast<std::size_t>(worst_rank)]),
                  "run an NTP client (chrony) on every host; times in the logs of different hosts "
                  "cannot be compared");
  } else {
    findings.fine("clocks", text);
  }
}

void check_cores(Findings& findings, const CoreCrowd& crowd, Communicator& world) {
  if (world.rank() == 0) judge_cores(findings, crowd, world.size());
}

bool check_load(Findings& findings, Communicator& world) {
  world.barrier();
  const LoadMeter meter;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  MachineLoad own = meter.read();
  own.waited = 0;  // it needed none
  const auto hosts = load_of_hosts(world, own);
  if (world.rank() == 0)
    for (const auto& [host, load] : hosts)
      judge_load(findings, host, load);
  return std::ranges::any_of(hosts, [](const auto& each) { return each.second.disturbs(); });
}

void check_stragglers(Findings& findings, Communicator& world,
                      const std::vector<std::string>& hosts, const CoreCrowd& crowd) {
  if (world.size() == 1) return;
  if (crowd.crowded()) {
    if (world.rank() == 0) findings.fine("stragglers", "not checked: ranks share cores");
    return;
  }
  world.barrier();
  const auto seconds = gather(world, compute_seconds());
  if (world.rank() == 0) judge_speeds(findings, seconds, hosts);
}

void check_planned_memory(Findings& findings, const Config& config, int rank,
                          const std::vector<std::string>& hosts, const CudaFacts& facts) {
  const MeshShape shape = mesh_shape(config.parallel);
  const auto here =
      static_cast<int>(std::ranges::count(hosts, hosts[static_cast<std::size_t>(rank)]));
  const NcclPlace place = nccl_place(config, facts, here, config.device.share);
  std::vector<MemoryNeed> stages;
  for (int stage = 0; stage < shape.pipeline; ++stage)
    stages.push_back(plan_need(config, rank_of(shape, {.pipeline = stage}), place));
  std::uint64_t planned = 0;
  for (int peer = 0; peer < shape.size(); ++peer) {
    if (hosts[static_cast<std::size_t>(peer)] != hosts[static_cast<std::size_t>(rank)]) continue;
    const MemoryNeed& need = stages[static_cast<std::size_t>(coordinates_of(shape, peer).pipeline)];
    planned += need.host() + need.held.memory_checkpoints(here < shape.size());
  }
  judge_planned_memory(findings, planned, here, host_memory());
  if (device_type(config) == DeviceType::cpu || facts.gpus.empty()) return;
  const MemoryNeed& own = stages[static_cast<std::size_t>(coordinates_of(shape, rank).pipeline)];
  judge_gpu_memory(findings, own.device(), own.to_string(), facts.gpus[0].memory_bytes);
}

void check_slices(Findings& findings, Communicator& world, const GpuFacts& own, bool may_share,
                  const std::vector<std::string>& hosts) {
  const auto buses = gather_texts(world, own.bus), ids = gather_texts(world, own.id);
  std::vector<RankGpu> gpus;
  for (std::size_t rank = 0; rank < buses.size(); ++rank)
    gpus.push_back({hosts[rank], buses[rank], ids[rank]});
  if (world.rank() == 0) judge_slices(findings, gpus, may_share);
}

void check_data_on_hosts(Findings& findings, Communicator& world, const std::string& key,
                         const std::string& path) {
  const auto lacking = hosts_without(world, path);
  if (lacking.empty() || world.rank() != 0) return;
  findings.problem("data",
                   fmt::format("{}: {} is not on {}, though it is on other hosts", key, path,
                               fmt::join(lacking, ", ")),
                   "copy it there, or use a directory on a file system that all hosts share");
}

GpuFacts gpu_facts_of_rank(const CudaFacts& facts, int local_rank) {
  if (facts.gpus.empty()) return {};
  return facts.gpus[static_cast<std::size_t>(local_rank) % facts.gpus.size()];
}

std::string type_of(const GpuFacts& gpu) {
  if (gpu.name.empty()) return {};
  return fmt::format("{} ({}.{}, {} GiB)", gpu.name, gpu.capability / 10, gpu.capability % 10,
                     (gpu.memory_bytes + (std::uint64_t{1} << 29)) >> 30);
}

void compare_gpus(Findings& findings, std::span<const std::string> gpus,
                  std::span<const std::string> hosts) {
  std::map<std::string, std::set<std::string>> hosts_by_type;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank)
    hosts_by_type[gpus[rank].empty() ? "no GPU" : gpus[rank]].insert(hosts[rank]);
  if (hosts_by_type.size() < 2) return;
  std::vector<std::string> types;
  for (const auto& [type, where] : hosts_by_type)
    types.push_back(fmt::format("{} on {}", type, fmt::join(where, " ")));
  findings.note("gpu", fmt::format("ranks use different types: {}", fmt::join(types, "; ")),
                "ask for one type (Slurm: --gpus-per-node=TYPE:N or --constraint), or choose GPUs "
                "of one type with CUDA_VISIBLE_DEVICES: every step waits for the slowest, and the "
                "smallest memory limits all");
}

}  // namespace trireme::doctor
