// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/cudnn_graphs.h"

#include "runtime/device/cuda_slot.h"

namespace trireme::ops::cuda {

std::string cudnn_version() {
  const auto version = cuda_slot<&cudnn_version>;
  return version != nullptr ? version() : std::string();
}

const CudnnPlan* cudnn_plan(const CudnnGraph& graph) {
  const auto plan = cuda_slot<&cudnn_plan>;
  return plan != nullptr ? plan(graph) : nullptr;
}

}  // namespace trireme::ops::cuda
