// SPDX-License-Identifier: Apache-2.0
// Convolution of images (N, H, W, C) and volumes (N, D, H, W, C). Weights are (O, [KD,] KH, KW,
// I / groups), so the filter of an output channel is contiguous. x, y, dy, dx, w: f32, bf16 or f16;
// dw: f32.
#pragma once

#include "runtime/device/device.h"
#include "runtime/ops/convolution/per_axis.h"

namespace trireme::ops {

struct ConvolutionOptions {
  PerAxis stride = 1;
  PerAxis padding = 0;      // on both sides of an axis
  PerAxis dilation = 1;     // distance of a window's positions
  std::int64_t groups = 1;  // of channels, each convolved apart; one per channel: depthwise
};

// (N, [D,] H, W, I) x (O, [KD,] KH, KW, I / groups) -> (N, [D',] H', W', O) with
// H' = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, rounded down. Refuses windows larger
// than the padded tensor, and groups that do not divide I and O.
[[nodiscard]] Shape convolution_output_shape(const Shape& x, const Shape& w,
                                             const ConvolutionOptions& options);

// Bytes of 64-byte aligned scratch for the three calls with these shapes (the maximum).
[[nodiscard]] std::size_t convolution_workspace_bytes(DeviceType device, DType dtype,
                                                      const Shape& x, const Shape& w,
                                                      const ConvolutionOptions& options);

void convolution_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                         const ConvolutionOptions& options, const Tensor& workspace);

// Also the forward of a transposed convolution: dy is its input, dx its output, w (inputs, [KD,]
// KH, KW, outputs / groups). Several extents of dx give the same extent of dy; the shape of dx says
// which is meant (elsewhere an output padding), and positions that no window reaches become zero.
// The input gradient is then convolution_forward, the weight gradient convolution_backward_weight
// with the transposed convolution's input as dy and the gradient of its output as x.
//
// dx is overwritten by the gradient, plus `addend` if given: another tensor of dx's shape. The
// gradient is rounded before the addition, unless cuDNN does both at once
// (ExecutionPolicy::fused_epilogues).
void convolution_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                const ConvolutionOptions& options, const Tensor& workspace,
                                const Tensor& addend = {});

// dw f32 is accumulated; on a GPU each addend may be rounded to the dtype of x,
// unless cuDNN adds it directly.
void convolution_backward_weight(Stream& stream, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x, const ConvolutionOptions& options,
                                 const Tensor& workspace);

}  // namespace trireme::ops
