// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU: by our own kernels.
#include "runtime/ops/attention_cuda_kernels.h"

namespace trireme::ops::cuda {

void attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                       std::int64_t heads) {
  simt_attention_forward(stream, out, lse, qkv, heads);
}

void attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const Tensor& qkv, std::int64_t heads) {
  simt_attention_backward(stream, dqkv, dout, out, lse, qkv, heads);
}

}  // namespace trireme::ops::cuda
