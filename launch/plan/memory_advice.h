// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/config/config.h"
#include "runtime/device/device.h"

namespace trireme {

// Settings that would make a failed allocation fit, judged by its role: "; train.micro_batch: 4
// would fit (now 16), ...". Later allocations may need more.
[[nodiscard]] std::string memory_advice(const Config& config, const OutOfMemory& lack);

}  // namespace trireme
