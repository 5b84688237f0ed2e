// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>

namespace trireme {
namespace {

// The value of "key<tabs>: value"; all cores of a host are assumed equal.
std::string field(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key) ||
        line.find_first_not_of(" \t", key.size()) != colon) {
      continue;
    }
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> vector_extensions() {
  constexpr std::array wanted = {"avx2",     "fma",         "f16c",        "avx512f",
                                 "avx512bw", "avx512_vnni", "avx512_bf16", "amx_bf16",
                                 "amx_int8", "asimd",       "bf16",        "sve"};
  std::string flags = field("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = field("/proc/cpuinfo", "Features");  // ARM's spelling
  std::vector<std::string> found;
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    if (std::ranges::find(wanted, word) != wanted.end()) found.push_back(word);
  }
  return found;
}

// The first number in a file; -1 without a file or for a word such as "max".
double number_in(const char* path) {
  std::ifstream file(path);
  double number = -1;
  return file >> number ? number : -1;
}

// The container's limit in CPU seconds per second, by cgroup version 2 or 1.
double quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double allowed = -1, period = -1;
  if (file >> allowed >> period && allowed > 0 && period > 0) return allowed / period;
  allowed = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  period = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return allowed > 0 && period > 0 ? allowed / period : 0;
}

std::uint64_t kibibytes(const char* path, std::string_view key) {
  std::istringstream text(field(path, key));
  std::uint64_t value = 0;
  return text >> value ? value * 1024 : 0;
}

}  // namespace

HostCpu host_cpu() {
  HostCpu cpu{.model = field("/proc/cpuinfo", "model name"),
              .extensions = vector_extensions(),
              .cores_online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
              .cores_quota = quota()};
  cpu.cores_allowed = static_cast<int>(allowed_cores().size());
  return cpu;
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

int usable_cores(const HostCpu& cpu) {
  const int allowed = cpu.cores_allowed > 0 ? cpu.cores_allowed : cpu.cores_online;
  if (cpu.cores_quota <= 0) return std::max(1, allowed);
  return std::max(1, std::min(allowed, static_cast<int>(std::ceil(cpu.cores_quota))));
}

HostMemory host_memory() {
  HostMemory memory{.total_bytes = kibibytes("/proc/meminfo", "MemTotal"),
                    .available_bytes = kibibytes("/proc/meminfo", "MemAvailable")};
  double limit = number_in("/sys/fs/cgroup/memory.max");
  if (limit < 0) limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  // Version 1 writes "none" as a huge number.
  if (limit > 0 && limit < static_cast<double>(memory.total_bytes))
    memory.limit_bytes = static_cast<std::uint64_t>(limit);
  return memory;
}

// Not ru_maxrss, which begins with that of the program which started this one.
std::uint64_t peak_resident_bytes() {
  return kibibytes("/proc/self/status", "VmHWM");
}

}  // namespace trireme
