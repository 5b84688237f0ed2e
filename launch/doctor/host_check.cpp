// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/host_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <algorithm>
#include <cctype>

#include <cstdlib>
#include <filesystem>

#include "launch/doctor/judge.h"
#include "launch/job/run_report.h"
#include "runtime/base/error.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/telemetry/environment.h"
#include "runtime/telemetry/host.h"

namespace trireme::doctor {
namespace {

bool has(const HostCpu& cpu, std::string_view extension) {
  return std::ranges::find(cpu.extensions, extension) != cpu.extensions.end();
}

void check_cpu(Findings& findings, const HostCpu& cpu, const Config& config) {
  findings.fine("cpu", fmt::format("{} ({})", cpu.model, fmt::join(cpu.extensions, " ")));
  const bool native = has(cpu, "avx512_bf16") || has(cpu, "amx_bf16") || has(cpu, "bf16");
  if (config.precision == Precision::bf16 && config.device.type == DeviceChoice::cpu && !native) {
    findings.note("precision", "this CPU has no bf16 instructions, so bf16 is computed in fp32",
                  "use precision: fp32, which is faster here");
  }
}

// Compares ranks with their loader and comm threads to the available cores.
void check_cores(Findings& findings, const HostCpu& cpu, const MpiEnvironment& mpi,
                 const Config& config) {
  const int ranks = mpi.local_size();
  const std::string text =
      fmt::format("{} rank{} on {} cores of this host, {} of them allowed to this one{}", ranks,
                  ranks == 1 ? "" : "s", cpu.cores_online, cpu.cores_allowed,
                  cpu.cores_quota > 0 ? fmt::format(", quota {:.1f}", cpu.cores_quota) : "");
  if (cpu.cores_allowed == 1 && cpu.cores_online > ranks && config.data.workers > 0) {
    findings.note("cores", text,
                  "the loader's threads share the rank's one core; use mpirun --bind-to none or "
                  "--map-by slot:PE=4");
  } else {
    findings.fine("cores", text);
  }
}

void check_memory(Findings& findings, const MpiEnvironment& mpi) {
  const HostMemory memory = host_memory();
  findings.fine("memory",
                fmt::format("{:.1f} GiB{}", in_gib(memory.total_bytes),
                            memory.limit_bytes > 0
                                ? fmt::format(", limited to {:.1f} GiB", in_gib(memory.limit_bytes))
                                : ""));
  constexpr double min_free = 0.05;
  if (static_cast<double>(memory.available_bytes) <
      min_free * static_cast<double>(memory.total_bytes)) {
    findings.note("memory", fmt::format("{:.1f} GiB are free", in_gib(memory.available_bytes)),
                  "stop other processes on this host");
  }
  // Open MPI keeps a segment per rank there.
  constexpr std::uint64_t segment = 4 << 20;
  struct statvfs shared {};
  if (mpi.local_size() > 1 && ::statvfs("/dev/shm", &shared) == 0) {
    const std::uint64_t free = std::uint64_t{shared.f_bavail} * shared.f_frsize;
    const std::uint64_t wanted = segment * static_cast<std::uint64_t>(mpi.local_size());
    if (free < wanted) {
      findings.problem("shared memory",
                       fmt::format("/dev/shm has {} MiB free, {} ranks want {} MiB", free >> 20,
                                   mpi.local_size(), wanted >> 20),
                       "remove leftovers of dead jobs (/dev/shm/*_segment.*), or start the "
                       "container with --shm-size=1g or --ipc=host");
    }
  }
}

void check_numa(Findings& findings, const HostCpu& cpu) {
  int nodes = 0;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename();
    nodes += name.starts_with("node") && name.size() > 4 && std::isdigit(name[4]) != 0 ? 1 : 0;
  }
  if (nodes <= 1) return;
  const std::string text = fmt::format("{} nodes", nodes);
  if (cpu.cores_allowed == cpu.cores_online) {
    findings.note("numa", text + "; this rank may run on all of them",
                  "bind ranks: mpirun --bind-to numa, or srun --cpu-bind=ldoms");
  } else {
    findings.fine("numa", text);
  }
}

void check_limits(Findings& findings) {
  constexpr rlim_t min_files = 1024;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < min_files) {
    findings.note("open files", fmt::format("hard limit {}", files.rlim_max),
                  "raise it (limits.conf or LimitNOFILE): each data shard and each connection "
                  "takes one");
  }
}

}  // namespace

void check_host(Findings& findings, const MpiEnvironment& mpi, const Config& config) {
  const HostCpu cpu = host_cpu();
  check_cpu(findings, cpu, config);
  check_cores(findings, cpu, mpi, config);
  check_memory(findings, mpi);
  check_numa(findings, cpu);
  check_limits(findings);
}

void check_gpus(Findings& findings, const MpiEnvironment& mpi, bool needed) {
  if (!Device::in_build(DeviceType::cuda)) {
    const std::string text = "this program was built without the CUDA back end";
    if (needed) {
      findings.problem("gpu", text, "build it with cmake --preset cuda, or use device.type: cpu");
    } else {
      findings.fine("gpu", text);
    }
    return;
  }
  const CudaFacts facts = cuda_facts();
  judge_cuda(findings, facts, needed);
  if (!facts.problem.empty()) {
    if (needed) {
      findings.problem("gpu", facts.problem, "");
    } else {
      findings.fine("gpu", "no usable GPU: " + facts.problem);
    }
    return;
  }
  for (std::size_t i = 0; i < facts.gpus.size(); ++i) {
    const GpuFacts& gpu = facts.gpus[i];
    findings.fine(
        "gpu", fmt::format("{}: {}{} {}, compute capability {}.{}, {} multiprocessors, {:.0f} GiB; "
                           "to each: {}",
                           i, is_slice(gpu.name) ? "a slice of a GPU: " : "", gpu.name, gpu.bus,
                           gpu.capability / 10, gpu.capability % 10, gpu.processors,
                           in_gib(gpu.memory_bytes), fmt::join(gpu.links, " ")));
    if (gpu.name != facts.gpus[0].name) {
      findings.note("gpu", fmt::format("GPU {} is of another type than GPU 0", i),
                    "choose GPUs of one type with CUDA_VISIBLE_DEVICES: the slowest sets the pace");
    }
  }
  if (needed && mpi.local_size() > static_cast<int>(facts.gpus.size())) {
    findings.note("gpu", fmt::format("{} ranks share {} GPUs", mpi.local_size(), facts.gpus.size()),
                  is_slice(facts.gpus[0].name)
                      ? "CUDA shows a process one slice (MIG): give each rank its own with "
                        "CUDA_VISIBLE_DEVICES=MIG-... (nvidia-smi -L); sharing one needs "
                        "device.share: true"
                      : "start one rank per GPU; sharing needs device.share: true");
  }
}

void check_libraries(Findings& findings, const MpiEnvironment& mpi) {
  findings.fine("trireme", version_text());
  findings.fine("launcher", fmt::format("{}; {} rank{}, {} on this host", mpi.launcher(),
                                        mpi.size(), mpi.size() == 1 ? "" : "s", mpi.local_size()));
  try {
    for (const auto& [name, version] : library_versions())
      findings.fine(name, version);
  } catch (const Error& error) {
    findings.problem("libraries", error.what(), "");
  }
}

}  // namespace trireme::doctor
