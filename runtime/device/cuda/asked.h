// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: what streams are asked for is noted here (device/work_log.h), and
// whether it is to run. For host code, too, which launch.h is not.
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

// Notes what a stream is asked for, where somebody counts; false: it is not to be launched.
[[nodiscard]] bool asked_to_launch(Stream& stream, const void* kernel, const Grid& grid);
// The same for a call of a library that is known to launch so many kernels.
[[nodiscard]] bool asked_to_call(Stream& stream, const char* library, int kernels = 1);

}  // namespace trireme::cuda
