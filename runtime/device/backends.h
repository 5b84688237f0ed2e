// SPDX-License-Identifier: Apache-2.0
// Private to this room: one maker per back end. The CUDA back end is a library of its own, which a
// program may be linked without: its maker is weak.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace trireme {

[[nodiscard]] std::unique_ptr<Device> make_cpu_device();
[[nodiscard, gnu::weak]] int count_cuda_devices() noexcept;
[[nodiscard, gnu::weak]] std::unique_ptr<Device> make_cuda_device(const DevicePlace& place);
[[gnu::weak]] void begin_cuda_range(const char* name) noexcept;
[[gnu::weak]] void end_cuda_range() noexcept;

}  // namespace trireme
