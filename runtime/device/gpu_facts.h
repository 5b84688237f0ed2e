// SPDX-License-Identifier: Apache-2.0
// Facts about the host's GPUs, found without using one.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct GpuFacts {
  std::string name;
  std::string bus;     // PCI address
  int capability = 0;  // 90 for 9.0
  std::uint64_t memory_bytes = 0;
  int processors = 0;  // multiprocessors
  // Its link to each GPU of the host, itself included: "self", "NVLink", "PCIe" or "host".
  std::vector<std::string> links;
  std::string id{};  // address and UUID; parts of one GPU (MIG) differ in the UUID
};

// A slice has its own memory and multiprocessors, and the address of its GPU. CUDA names it after
// that and its size: "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
[[nodiscard]] inline bool is_slice(std::string_view name) {
  return name.find(" MIG ") != std::string_view::npos;
}

struct CudaFacts {
  std::string runtime;  // CUDA version of the build's runtime, "13.0"
  std::string driver;   // newest that the driver supports; empty: no driver
  std::string module;   // the kernel's part of the driver, "580.65.06"; empty: unknown
  std::string problem;  // why no GPU can be used; empty: none
  std::vector<GpuFacts> gpus;
};

// Empty in a program without the CUDA back end (Device::in_build).
[[nodiscard]] CudaFacts cuda_facts();

// Environment variables for the CUDA driver, which reads them once, at the process's first CUDA
// call.

// Sets, unless the user has:
//   CUDA_MODULE_LOADING=EAGER        loading a kernel at its first launch may wait for the whole
//                                    device, and so for a receive that waits for this rank
//   CUDA_DEVICE_MAX_CONNECTIONS=32   a stream that shares a hardware queue waits for the other's
//                                    work
//   CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT   on Hopper, reproducible backward of attention whose
//                                    score matrices take more than these 2 GiB adds up dq in order
//                                    instead, with scratch linear in the length; 0: always
// To be called first thing in main(), before MPI starts (which may look for GPUs) and before there
// are threads. RankProcess and guarded_main() call it.
inline bool prepare_gpu_environment() noexcept {
  static const bool chosen = [] {
    const bool by_user = std::getenv("CUDA_MODULE_LOADING") != nullptr;
    // A failure means that there is no memory for two words; whatever comes next will say so.
    static_cast<void>(::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0));
    static_cast<void>(::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0));
    static_cast<void>(
        ::setenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "2147483648", /*overwrite=*/0));
    return !by_user;
  }();
  return chosen;
}

// Eager loading reads all kernels of all libraries at the start of every process and keeps their
// code in GPU memory. A job whose ranks all issue their messages in one order does not need it: if
// a load waits for running messages, every rank has issued those. Undoes EAGER unless the user has
// set it. Before the first CUDA call.
inline void load_kernels_when_used() noexcept {
  if (prepare_gpu_environment())
    static_cast<void>(::setenv("CUDA_MODULE_LOADING", "LAZY", /*overwrite=*/1));
}

}  // namespace trireme
