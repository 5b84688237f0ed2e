// SPDX-License-Identifier: Apache-2.0
// Private: convolution by our own CUDA kernels, where cuDNN has no plan. Operands as in
// convolution.h, already checked.
#pragma once

#include "runtime/ops/convolution/convolution_geometry.h"

namespace trireme::ops::cuda {

void simt_convolution_forward(Stream& stream, const ConvolutionGeometry& g, const Tensor& y,
                              const Tensor& x, const Tensor& w);
void simt_convolution_backward_input(Stream& stream, const ConvolutionGeometry& g, const Tensor& dx,
                                     const Tensor& dy, const Tensor& w);

void simt_convolution_backward_weight(Stream& stream, const ConvolutionGeometry& g,
                                      const Tensor& dw, const Tensor& dy, const Tensor& x,
                                      const Tensor& workspace);

// dw(f32) += the `parts` contiguous addends of `dtype` at `from`, in order.
void add_weight_gradients(Stream& stream, const Tensor& dw, const std::byte* from, DType dtype,
                          std::int64_t parts);

}  // namespace trireme::ops::cuda
