// SPDX-License-Identifier: Apache-2.0
// Judges measured values. Pure functions; each adds one finding.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "launch/doctor/finding.h"
#include "launch/engine/agreement/core_sharing.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/telemetry/host.h"
#include "runtime/telemetry/machine_load.h"

namespace trireme::doctor {

// Ranks that share cores, in a job of `ranks`.
void judge_cores(Findings& findings, const CoreCrowd& crowd, int ranks);
// Other load on a host's cores, while no rank computes.
void judge_load(Findings& findings, const std::string& host, const MachineLoad& load);
// Seconds of each rank for equal work.
void judge_speeds(Findings& findings, std::span<const double> seconds,
                  std::span<const std::string> hosts);
// Total planned memory of `ranks` ranks on one host.
void judge_planned_memory(Findings& findings, std::uint64_t planned, int ranks,
                          const HostMemory& memory);
// Versions of CUDA: the build's, libcuda's and the kernel module's. `needed`: a run wants a GPU.
void judge_cuda(Findings& findings, const CudaFacts& facts, bool needed);
// By rank: the host, the GPU's address and its GpuFacts::id, or nothing.
struct RankGpu {
  std::string host, bus, id;
};
// Ranks that NCCL refuses together: on slices of one GPU.
void judge_slices(Findings& findings, std::span<const RankGpu> gpus, bool may_share);
// What a rank plans on a GPU of `there` bytes; `parts` says for what.
void judge_gpu_memory(Findings& findings, std::uint64_t planned, const std::string& parts,
                      std::uint64_t there);
// What a rank's NCCL groups should take in training, and took after an all-reduce on each.
void report_nccl_memory(Findings& findings, std::uint64_t planned, std::uint64_t measured);
// All-reduce on groups without known reference times. `text` describes them; `small_seconds` is for
// 8 bytes, `bandwidth` is the bus bandwidth for large ones in MB/s.
void judge_collectives(Findings& findings, const std::string& text, double small_seconds,
                       double bandwidth);

}  // namespace trireme::doctor
