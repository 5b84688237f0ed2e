// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme {

[[nodiscard]] std::string host_name();

}  // namespace trireme
