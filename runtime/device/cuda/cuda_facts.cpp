// SPDX-License-Identifier: Apache-2.0
#include <array>

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

GpuFacts facts_of(int index, int count) {
  GpuFacts facts;
  cudaDeviceProp properties{};
  TRIREME_CUDA(cudaGetDeviceProperties(&properties, index));
  facts.name = properties.name;
  facts.capability = 10 * properties.major + properties.minor;
  facts.memory_bytes = properties.totalGlobalMem;
  std::array<char, 32> bus{};
  TRIREME_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index));
  facts.bus = bus.data();
  facts.id = facts.bus + "-";
  for (const char byte : properties.uuid.bytes)
    facts.id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  for (int other = 0; other < count; ++other)
    facts.links.push_back(link_between(index, other));
  return facts;
}

}  // namespace

namespace cuda {

CudaFacts cuda_facts() {
  CudaFacts facts;
  int runtime = 0, driver = 0;
  TRIREME_CUDA(cudaRuntimeGetVersion(&runtime));
  TRIREME_CUDA(cudaDriverGetVersion(&driver));
  facts.runtime = cuda_version_text(runtime);
  if (driver > 0) facts.driver = cuda_version_text(driver);
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
