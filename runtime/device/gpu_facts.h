// SPDX-License-Identifier: Apache-2.0
// Facts about the host's GPUs, found without using one.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace trireme {

struct GpuFacts {
  std::string name;
  std::string bus;     // PCI address
  int capability = 0;  // 90 for 9.0
  std::uint64_t memory_bytes = 0;
  // Its link to each GPU of the host, itself included: "self", "NVLink", "PCIe" or "host".
  std::vector<std::string> links;
  std::string id{};  // address and UUID; parts of one GPU (MIG) differ in the UUID
};

struct CudaFacts {
  std::string runtime;  // CUDA version of the build's runtime, "13.0"
  std::string driver;   // newest that the driver supports; empty: no driver
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
// To be called first thing in main(), before MPI starts (which may look for GPUs) and before there
// are threads. RankProcess and guarded_main() call it.
inline void prepare_gpu_environment() noexcept {
  // A failure means that there is no memory for two words; whatever comes next will say so.
  static_cast<void>(::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0));
  static_cast<void>(::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0));
}

}  // namespace trireme
