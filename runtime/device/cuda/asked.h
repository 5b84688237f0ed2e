// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: logs launches on a stream (device/work_log.h) and decides whether
// they run. Host code may include it, unlike launch.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/device/device.h"

namespace trireme::cuda {

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
