// SPDX-License-Identifier: Apache-2.0
// Private to this room: one maker per back end. A back end that is not in the build is linked as a
// stub (cuda_absent.cpp) that says so.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace trireme {

[[nodiscard]] std::unique_ptr<Device> make_cpu_device();
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(int local_rank);

}  // namespace trireme
