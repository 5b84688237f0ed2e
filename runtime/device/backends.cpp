// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/backends.h"

#include "runtime/device/cuda_slot.h"
#include "runtime/device/gpu_facts.h"

namespace trireme {

int count_cuda_devices() noexcept {
  const auto count = cuda_slot<&count_cuda_devices>;
  return count != nullptr ? count() : 0;
}

std::unique_ptr<Device> make_cuda_device(const DevicePlace& place) {
  const auto make = cuda_slot<&make_cuda_device>;
  if (make == nullptr) {
    fail(ExitCode::config,
         "device.type: cuda: the device is part of the cuda backend, which this build lacks; "
         "use cpu or auto, or build with CUDA");
  }
  return make(place);
}

void begin_cuda_range(const char* name) noexcept {
  if (const auto begin = cuda_slot<&begin_cuda_range>) begin(name);
}

void end_cuda_range() noexcept {
  if (const auto end = cuda_slot<&end_cuda_range>) end();
}

CudaFacts cuda_facts() {
  const auto facts = cuda_slot<&cuda_facts>;
  return facts != nullptr ? facts() : CudaFacts{};
}

}  // namespace trireme
