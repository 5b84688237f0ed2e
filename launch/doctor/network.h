// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme::doctor {

struct NetworkInterface {
  std::string name;
  int megabits = 0;  // per second, from the driver; 0: unknown
};

// Interfaces that are up with an IPv4 address, without loopback.
[[nodiscard]] std::vector<NetworkInterface> network_interfaces();

}  // namespace trireme::doctor
