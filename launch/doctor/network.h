// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace trireme::doctor {

struct NetworkInterface {
  std::string name;
  int megabits = 0;  // per second, as the driver says; 0: it does not
};

// With an IPv4 address, up, but the loopback.
[[nodiscard]] std::vector<NetworkInterface> network_interfaces();

}  // namespace trireme::doctor
