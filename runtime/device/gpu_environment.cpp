// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/gpu_environment.h"

#include <cstdlib>

namespace trireme {

// A failure means that there is no memory for two words; whatever comes next will say so.
void prepare_gpu_environment() noexcept {
  static_cast<void>(::setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0));
  static_cast<void>(::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0));
}

}  // namespace trireme
