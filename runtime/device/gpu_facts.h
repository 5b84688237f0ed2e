// SPDX-License-Identifier: Apache-2.0
// Facts about the host's GPUs, found without using one.
#pragma once

#include <cstdint>
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

}  // namespace trireme
