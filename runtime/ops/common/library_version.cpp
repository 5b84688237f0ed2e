// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/library_version.h"

#include <dnnl.h>
#include <fmt/format.h>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/cudnn_graphs.h"

namespace trireme::ops {

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string cudnn_version() {
  return cuda::cudnn_version();
}

std::string cublaslt_version() {
  const auto version = cuda_slot<&cublaslt_version>;
  return version != nullptr ? version() : std::string();
}

}  // namespace trireme::ops
