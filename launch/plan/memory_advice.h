// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/config/config.h"
#include "runtime/device/device.h"

namespace trireme {

// Which settings would make what was asked for fit, as far as its role tells: "; train.micro_batch:
// 4 would fit (now 16), ...". What is asked for later may need more.
[[nodiscard]] std::string memory_advice(const Config& config, const OutOfMemory& lack);

}  // namespace trireme
