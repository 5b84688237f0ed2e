// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/cudnn_graphs.h"

namespace trireme::ops::cuda {

std::string cudnn_version() {
  return {};
}

const CudnnPlan* cudnn_plan(const CudnnGraph& /*graph*/) {
  return nullptr;
}

CudnnOffer cudnn_offer(const CudnnGraph& /*graph*/, int /*compute_capability*/,
                       const std::string& /*device_properties*/) {
  return {.refusal = "cudnn-frontend is not in this build"};
}

}  // namespace trireme::ops::cuda
