// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace trireme {

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

}  // namespace trireme
