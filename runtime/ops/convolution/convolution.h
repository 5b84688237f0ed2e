// SPDX-License-Identifier: Apache-2.0
// 2-D convolution on NHWC tensors. Weights are (O, KH, KW, I), so the filter of an output channel
// is contiguous. x, y, dy, dx, w: f32, bf16 or f16; bias, dw, db: f32.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

struct ConvolutionOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // on all four sides
};

// (N, H, W, I) x (O, KH, KW, I) -> (N, H', W', O), H' = (H + 2 padding - KH) / stride + 1.
[[nodiscard]] Shape convolution_output_shape(const Shape& x, const Shape& w,
                                             const ConvolutionOptions& options);

// Bytes of 64-byte aligned scratch for the three calls with these shapes (the maximum).
[[nodiscard]] std::size_t convolution_workspace_bytes(DeviceType device, DType dtype,
                                                      const Shape& x, const Shape& w,
                                                      const ConvolutionOptions& options);

void convolution_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                         const ConvolutionOptions& options, const Tensor& workspace);

// dx is overwritten by the gradient, plus `addend` if given: another tensor of dx's shape. The
// gradient is rounded before the addition, unless cuDNN does both at once
// (ExecutionPolicy::fused_epilogues).
void convolution_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const ConvolutionOptions& options, const Tensor& workspace,
                                const Tensor& addend = {});

// dw(O, KH, KW, I) f32 is accumulated; on a GPU each addend may be rounded to the dtype of x,
// unless cuDNN adds it directly.
void convolution_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x, const ConvolutionOptions& options,
                                 const Tensor& workspace);

}  // namespace trireme::ops
