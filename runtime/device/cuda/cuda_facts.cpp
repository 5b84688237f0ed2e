// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cctype>
#include <fstream>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/device/gpu_facts.h"

namespace trireme {
namespace {

std::string link_between(int from, int to) {
  if (from == to) return "self";
  int reachable = 0, atomics = 0;
  TRIREME_CUDA(cudaDeviceCanAccessPeer(&reachable, from, to));
  if (reachable == 0) return "host";
  // Only over NVLink are atomics on a peer's memory native.
  TRIREME_CUDA(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
  return atomics != 0 ? "NVLink" : "PCIe";
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...": the first word that
// begins with a digit.
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) return word;
  }
  return {};
}

std::string bus_of(int index) {
  std::array<char, 32> bus{};
  TRIREME_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index));
  return bus.data();
}

GpuFacts facts_of(int index, int count) {
  GpuFacts facts;
  cudaDeviceProp properties{};
  TRIREME_CUDA(cudaGetDeviceProperties(&properties, index));
  facts.name = properties.name;
  facts.capability = 10 * properties.major + properties.minor;
  facts.memory_bytes = properties.totalGlobalMem;
  facts.processors = properties.multiProcessorCount;
  facts.bus = bus_of(index);
  facts.id = gpu_id(index);
  for (int other = 0; other < count; ++other)
    facts.links.push_back(link_between(index, other));
  return facts;
}

}  // namespace

std::string gpu_id(int index) {
  cudaDeviceProp properties{};
  TRIREME_CUDA(cudaGetDeviceProperties(&properties, index));
  std::string id = bus_of(index) + "-";
  for (const char byte : properties.uuid.bytes)
    id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return id;
}

namespace cuda {

CudaFacts cuda_facts() {
  CudaFacts facts;
  int runtime = 0, driver = 0;
  TRIREME_CUDA(cudaRuntimeGetVersion(&runtime));
  TRIREME_CUDA(cudaDriverGetVersion(&driver));
  facts.runtime = cuda_version_text(runtime);
  if (driver > 0) facts.driver = cuda_version_text(driver);
  facts.module = kernel_module_version();
  try {
    const int count = cuda_device_count();
    for (int index = 0; index < count; ++index)
      facts.gpus.push_back(facts_of(index, count));
  } catch (const Error& error) {
    facts.problem = error.what();
  }
  return facts;
}

TRIREME_CUDA_PROVIDES(trireme, cuda_facts);

}  // namespace cuda

}  // namespace trireme
