// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace trireme::doctor {
namespace {

// The lower median of all values but one (at least two values).
double usual_of_others(std::span<const double> values, std::size_t left_out) {
  std::vector<double> others;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != left_out) others.push_back(values[i]);
  }
  std::ranges::sort(others);
  return others.at((others.size() - 1) / 2);
}

}  // namespace

void judge_cores(Findings& findings, const CoreCrowd& crowd, int ranks) {
  if (!crowd.crowded()) return;
  const std::string text =
      fmt::format("{} on {} share {} and take turns",
                  crowd.ranks.size() == static_cast<std::size_t>(ranks)
                      ? fmt::format("all {} ranks", ranks)
                      : fmt::format("ranks {}", fmt::join(crowd.ranks, ", ")),
                  crowd.host, crowd.cores == 1 ? "1 core" : fmt::format("{} cores", crowd.cores));
  findings.note("cores", text,
                "start at most one rank per core and bind each rank to its own core or to none "
                "(mpirun --bind-to none); if there are more ranks, source launch/mpi_env.sh so "
                "that waiting ranks yield");
}

void judge_load(Findings& findings, const std::string& host, const MachineLoad& load) {
  const std::string text = fmt::format("{} on {}", describe(load), host);
  if (!load.disturbs()) return findings.fine("load", text);
  findings.note("load", text,
                "stop them, or ask for cores of your own: runs beside them wait for cores, and "
                "measurements (trireme bench, trireme scale) are unreliable");
}

void judge_speeds(Findings& findings, std::span<const double> seconds,
                  std::span<const std::string> hosts) {
  constexpr double tolerated = 1.25;
  if (seconds.size() < 2) return;
  const auto rank = static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
  const double ratio = seconds[rank] / usual_of_others(seconds, rank);
  const std::string text = fmt::format(
      "the slowest rank, {} on {}, takes {:.2f} times as long as the others for the same work",
      rank, hosts[rank], ratio);
  if (ratio > tolerated) {
    findings.note("stragglers", text,
                  "check for other processes, a lower clock or heat on that host; every step waits "
                  "for its slowest rank");
  } else {
    findings.fine("stragglers", text);
  }
}

void judge_planned_memory(Findings& findings, std::uint64_t planned, int ranks,
                          const HostMemory& memory) {
  const std::uint64_t there = memory.limit_bytes > 0
                                  ? std::min(memory.limit_bytes, memory.total_bytes)
                                  : memory.total_bytes;
  const std::string text = fmt::format(
      "the config plans {:.1f} GiB for {} rank{} of this host, which has {:.1f} GiB, {:.1f} GiB of "
      "its memory free",
      in_gib(planned), ranks, ranks == 1 ? "" : "s", in_gib(there), in_gib(memory.available_bytes));
  const std::string fix =
      "lower train.micro_batch, use train.recompute: full, raise parallel.zero, tensor or "
      "pipeline, or start fewer ranks on each host; trireme plan shows what takes the memory";
  if (planned > there) {
    findings.problem("planned memory", text, fix);
  } else if (planned > memory.available_bytes) {
    findings.note("planned memory", text, "stop other processes on this host, or " + fix);
  } else {
    findings.fine("planned memory", text);
  }
}

void judge_cuda(Findings& findings, const CudaFacts& facts, bool needed) {
  const std::string text =
      fmt::format("compiled for {}, libcuda supports {}, kernel module {}", facts.runtime,
                  facts.driver.empty() ? "none: not loaded" : facts.driver,
                  facts.module.empty() ? "unknown" : facts.module);
  const auto major = [](const std::string& version) {
    return std::atoi(version.substr(0, version.find('.')).c_str());
  };
  if (facts.driver.empty() || major(facts.driver) >= major(facts.runtime))
    return findings.fine("cuda", text);
  const std::string fix = fmt::format(
      "update the driver; on data-center GPUs the forward-compatibility libcuda of CUDA {} does "
      "too (package cuda-compat-{}-{}): put its folder first in LD_LIBRARY_PATH",
      facts.runtime, major(facts.runtime), facts.runtime.substr(facts.runtime.find('.') + 1));
  if (needed) return findings.problem("cuda", text, fix);
  findings.note("cuda", text, fix);
}

void judge_slices(Findings& findings, std::span<const RankGpu> gpus, bool may_share) {
  for (std::size_t b = 1; b < gpus.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (gpus[a].bus.empty() || gpus[a].host != gpus[b].host || gpus[a].bus != gpus[b].bus ||
          gpus[a].id == gpus[b].id)
        continue;
      const std::string text = fmt::format("ranks {} and {} have slices of the GPU {} of {} (MIG)",
                                           a, b, gpus[a].bus, gpus[a].host);
      if (may_share)
        return findings.note("gpu", text + "; their messages go through sockets",
                             "use the whole GPU if speed matters");
      return findings.problem("gpu", text + ", which NCCL refuses as a duplicate",
                              "use the GPU as a whole, slices of different GPUs, or device.share: "
                              "true, which sends messages through sockets");
    }
  }
}

void judge_gpu_memory(Findings& findings, std::uint64_t planned, const std::string& parts,
                      std::uint64_t there) {
  const std::string text = fmt::format(
      "the config plans {:.2f} GiB for a rank on a GPU of {:.2f} GiB ({}), without the memory of "
      "CUDA and its libraries",
      in_gib(planned), in_gib(there), parts);
  if (planned <= there) return findings.fine("planned GPU memory", text);
  findings.problem("planned GPU memory", text,
                   "lower train.micro_batch or comm.max_ctas, use train.recompute: full, raise "
                   "parallel.zero, tensor or pipeline; trireme plan shows what takes the memory");
}

void report_nccl_memory(Findings& findings, std::uint64_t planned, std::uint64_t measured) {
  findings.fine("NCCL memory",
                fmt::format("{:.2f} GiB planned for training's groups; {:.2f} GiB taken by the "
                            "driver's count, after an all-reduce on each",
                            in_gib(planned), in_gib(measured)));
}

void judge_collectives(Findings& findings, const std::string& text, double small_seconds,
                       double bandwidth) {
  constexpr double late = 5e-3, narrow = 20;  // seconds, MB/s: beyond any network
  if (small_seconds > late || bandwidth < narrow) {
    findings.note("collectives", text + "; a step waits for several of these",
                  "check whether ranks share cores (above), the choice of interface "
                  "(TRIREME_INTERFACE, NCCL_SOCKET_IFNAME) and other jobs on the network");
  } else {
    findings.fine("collectives", text);
  }
}

}  // namespace trireme::doctor
