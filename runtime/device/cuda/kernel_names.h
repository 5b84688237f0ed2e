// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: kernel names from the program's symbol table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/device/device.h"

namespace trireme::cuda {

// "adamw_kernel<bf16>" from the function that launches a kernel; "kernel" in a stripped program.
[[nodiscard]] std::string kernel_name(const void* kernel);

// logs launches on a stream (device/work_log.h) and decides whether
// they run. Host code may include it, unlike launch.h.
struct Grid {
  std::int64_t blocks = 1;  // no blocks: nothing is launched
  int threads = 256;
  std::size_t shared_bytes = 0;  // dynamic, see dynamic_shared()
};

// Logs a launch if a WorkLog counts; false: do not launch.
[[nodiscard]] bool asked_to_launch(Stream& stream, const void* kernel, const Grid& grid);
// The same for a library call that launches this number of kernels.
[[nodiscard]] bool asked_to_call(Stream& stream, const char* library, int kernels = 1);

}  // namespace trireme::cuda
