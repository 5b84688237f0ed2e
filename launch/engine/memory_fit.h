// SPDX-License-Identifier: Apache-2.0
// Whether a planned run fits into the memory of its GPUs and hosts, before it allocates any.
#pragma once

#include "launch/engine/memory_plan.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/plan/nccl_memory.h"

namespace trireme {

// How NCCL reaches other ranks.
struct NcclPlace {
  plan::Links links{};
  bool nvls = false;   // sums may go over NVLink SHARP
  bool direct = true;  // adapters read and write GPU memory
};
// `ranks_here`: of this host. `shared`: they take turns on GPUs (comm/nccl: each is then a host of
// its own to NCCL).
[[nodiscard]] NcclPlace nccl_place(const Config& config, const CudaFacts& facts, int ranks_here,
                                   bool shared);

// What NCCL allocates on a rank for the groups of training, or of generation.
[[nodiscard]] plan::NcclMemory nccl_memory_of(const Config& config, const NcclPlace& place,
                                              bool training);

// What a rank needs in training. On the CPU all of it is the host's.
struct MemoryNeed {
  DeviceType type = DeviceType::cpu;
  HeldMemory held{};
  plan::NcclMemory nccl{};
  [[nodiscard]] std::uint64_t device() const;
  [[nodiscard]] std::uint64_t host() const;  // page-locked, beside a GPU; else all
  // "parameters 1.2 GiB, gradients 0.6 GiB, NCCL 0.3 GiB"
  [[nodiscard]] std::string to_string() const;
};
[[nodiscard]] MemoryNeed plan_need(const Config& config, int rank, const NcclPlace& place,
                                   const OwnModel* own = nullptr);

// Raises OutOfMemory for the first use that does not fit into what the driver has left of a GPU,
// and ExitCode::config for a host whose ranks need more than its memory. Collective. Returns what
// this rank needs.
MemoryNeed require_fit(Communicator& world, const Device& device, const Config& config,
                       const OwnModel* own);

// Logs what the fullest GPU and host should hold beside what they do: by the driver's count, and
// the resident memory of all ranks. Collective; once the ranks have trained.
void log_memory_use(Communicator& world, const Device& device, const MemoryNeed& need);

}  // namespace trireme
