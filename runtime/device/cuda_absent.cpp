// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/backends.h"

namespace trireme {

std::unique_ptr<Device> make_cuda_device(int /*local_rank*/) {
  fail(ExitCode::config,
       "device.type: cuda: the device is part of the cuda backend, which this build lacks; "
       "use cpu or auto, or build with CUDA");
}

}  // namespace trireme
