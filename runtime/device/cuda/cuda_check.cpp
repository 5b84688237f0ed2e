// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_check.h"

#include <cstdio>

#include "runtime/base/error.h"

namespace trireme::detail {

void check_cuda(cudaError_t code, const char* call, std::source_location where) {
  if (code == cudaSuccess) return;
  const cudaError_t kept = cudaGetLastError();  // clears it, or the next call would report it again
  static_cast<void>(kept);
  library_failed(call, fmt::format("{} ({})", cudaGetErrorName(code), cudaGetErrorString(code)),
                 ExitCode::internal, where);
}

void report_cuda(cudaError_t code, const char* call) noexcept {
  // The driver unloads before the last static objects are destroyed.
  if (code == cudaSuccess || code == cudaErrorCudartUnloading) return;
  std::fprintf(stderr, "%s: %s failed: %s\n", process_label().c_str(), call,
               cudaGetErrorName(code));
}

}  // namespace trireme::detail
