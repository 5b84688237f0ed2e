// SPDX-License-Identifier: Apache-2.0
// NVTX is header-only and nearly free without a profiler.
#include "runtime/device/backends.h"
#include "runtime/device/cuda_slot.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace trireme {

namespace cuda {

#if __has_include(<nvtx3/nvToolsExt.h>)
void begin_cuda_range(const char* name) noexcept {
  static_cast<void>(nvtxRangePushA(name));  // the result is the nesting depth
}

void end_cuda_range() noexcept {
  static_cast<void>(nvtxRangePop());
}
#else
void begin_cuda_range(const char* /*name*/) noexcept {}
void end_cuda_range() noexcept {}
#endif

TRIREME_CUDA_PROVIDES(trireme, begin_cuda_range);
TRIREME_CUDA_PROVIDES(trireme, end_cuda_range);

}  // namespace cuda

}  // namespace trireme
