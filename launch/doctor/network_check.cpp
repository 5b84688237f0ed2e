// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <algorithm>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "launch/doctor/host_check.h"
#include "launch/doctor/job_check.h"
#include "runtime/base/error.h"

namespace trireme::doctor {
namespace {

int speed_of(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/speed");
  int megabits = -1;
  return file >> megabits && megabits > 0 ? megabits : 0;
}

// Bridges and tunnels of container engines, unreachable from other hosts.
bool is_host_local(const std::string& name) {
  constexpr std::array prefixes = {"docker", "virbr", "br-", "cni", "flannel", "podman", "lxc"};
  return std::ranges::any_of(prefixes,
                             [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) system_failed("getifaddrs", "this host");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0 || (entry->ifa_flags & IFF_UP) == 0) continue;
    interfaces.push_back({entry->ifa_name, speed_of(entry->ifa_name)});
  }
  return interfaces;
}

void check_network(Findings& findings, int hosts) {
  std::vector<std::string> described, local;
  for (const NetworkInterface& interface : network_interfaces()) {
    described.push_back(interface.megabits == 0
                            ? interface.name
                            : fmt::format("{} ({} Mbit/s)", interface.name, interface.megabits));
    if (is_host_local(interface.name)) local.push_back(interface.name);
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", ignored))
    described.push_back("InfiniBand " + entry.path().filename().string());
  findings.fine("network", described.empty() ? "no interface except the loopback"
                                             : fmt::format("{}", fmt::join(described, ", ")));
  if (hosts <= 1) return;
  const char* const include = std::getenv("OMPI_MCA_btl_tcp_if_include");
  if (include != nullptr) findings.fine("network", fmt::format("Open MPI uses {}", include));
  if (include == nullptr && !local.empty()) {
    findings.note(
        "network",
        fmt::format("Open MPI may choose {}, which other hosts do not reach",
                    fmt::join(local, ", ")),
        "set OMPI_MCA_btl_tcp_if_include and NCCL_SOCKET_IFNAME to the cluster's interface");
  }
}

}  // namespace trireme::doctor
