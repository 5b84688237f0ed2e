// SPDX-License-Identifier: Apache-2.0
// Private to this module: one factory per back end, and other functions of the CUDA back end, a
// library that a program may be linked without (cuda_slot.h).
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace trireme {

[[nodiscard]] std::unique_ptr<Device> make_cpu_device();
// 0 without the back end.
[[nodiscard]] int count_cuda_devices() noexcept;
// Raises ExitCode::config without the back end.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(const DevicePlace& place);
// A device for Execution::host; only with the back end, see make_counting_device().
[[nodiscard]] std::unique_ptr<Device> make_counting_cuda_device();
// Do nothing without the back end.
void begin_cuda_range(const char* name) noexcept;
void end_cuda_range() noexcept;

}  // namespace trireme
