// SPDX-License-Identifier: Apache-2.0
// Private: attention by our own CUDA kernels, where cuDNN has no plan. Operands as in attention.h,
// already checked.
#pragma once

#include "runtime/ops/attention/attention.h"

namespace trireme::ops::cuda {

void simt_attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                            const AttentionOptions& options);
void simt_attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout,
                             const Tensor& out, const Tensor& lse, const Tensor& qkv,
                             const AttentionOptions& options);

}  // namespace trireme::ops::cuda
