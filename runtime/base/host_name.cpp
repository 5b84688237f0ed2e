// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/host_name.h"

#include <unistd.h>

#include <array>

#include "runtime/base/error.h"

namespace trireme {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) system_failed("gethostname", "this host");
  return name.data();
}

}  // namespace trireme
