// SPDX-License-Identifier: Apache-2.0
// Environment variables for the CUDA driver, which reads them once, at the process's first CUDA
// call.
#pragma once

#include <cstdlib>

namespace trireme {

// Sets, unless the user has:
//   CUDA_MODULE_LOADING=EAGER        loading a kernel at its first launch may wait for the whole
//                                    device, and so for a receive that waits for this rank
//   CUDA_DEVICE_MAX_CONNECTIONS=32   a stream that shares a hardware queue waits for the other's
//                                    work
// To be called first thing in main(), before MPI starts (which may look for GPUs) and before there
// are threads. RankProcess and guarded_main() call it.
inline void prepare_gpu_environment() noexcept {
  // It fails only without memory for two words; the next allocation will report that.
  static_cast<void>(::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0));
  static_cast<void>(::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0));
}

}  // namespace trireme
