// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl.h"

#include "runtime/device/cuda_slot.h"

namespace trireme {

std::unique_ptr<Communicator> make_nccl_world(std::unique_ptr<Communicator> host, Device& device,
                                              NcclOptions options) {
  const auto make = cuda_slot<&make_nccl_world>;
  if (make == nullptr)
    fail(ExitCode::config, "NCCL is part of the cuda backend, which this build lacks");
  return make(std::move(host), device, std::move(options));
}

std::string nccl_library_version() {
  const auto version = cuda_slot<&nccl_library_version>;
  return version != nullptr ? version() : std::string();
}

}  // namespace trireme
