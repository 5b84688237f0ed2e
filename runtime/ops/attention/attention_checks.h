// SPDX-License-Identifier: Apache-2.0
// Private: checks and work that attention of whole samples and of parts of them have in common.
#pragma once

#include <string_view>

#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

// Of qkv and the options. Returns the shape of `out`.
Shape check_qkv(const Operands& check, std::string_view op, const Tensor& qkv,
                const AttentionOptions& options);

// FLOPs of forward's two products, over the visible keys if a sequence is one document.
[[nodiscard]] double forward_flops(AttentionSizes sizes);

// The compute capability of the GPU for which cuDNN's backward is planned; 0: own kernels run.
[[nodiscard]] int planned_capability(DeviceType device, DType dtype,
                                     const AttentionOptions& options);

}  // namespace trireme::ops
