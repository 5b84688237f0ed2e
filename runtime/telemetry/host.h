// SPDX-License-Identifier: Apache-2.0
// The processor and memory that this process may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct HostCpu {
  std::string model;
  std::vector<std::string> extensions;  // CPU flags that select kernels
  int cores_online = 0;
  int cores_allowed = 0;   // by the affinity mask; 0: unknown
  double cores_quota = 0;  // by the container's quota; 0: none
};

struct HostMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t limit_bytes = 0;  // the container's; 0: none
};

[[nodiscard]] HostCpu host_cpu();
// The cores in this thread's affinity mask, ascending; empty if unknown.
[[nodiscard]] std::vector<int> allowed_cores();
// Whole cores usable by this process: allowed, and within the quota; at least one.
[[nodiscard]] int usable_cores(const HostCpu& cpu);
[[nodiscard]] HostMemory host_memory();
// Peak resident memory of this process in bytes.
[[nodiscard]] std::uint64_t peak_resident_bytes();

}  // namespace trireme
