// SPDX-License-Identifier: Apache-2.0
// Private: convolution by oneDNN on channels-last activations. oneDNN chooses the weight layout;
// each call reorders our weights into `workspace`. f32, or bf16 on processors that multiply it; all
// operands have one dtype except dw, which is f32.
#pragma once

#include <cstddef>

#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops::cpu::by_dnnl {

[[nodiscard]] std::size_t workspace_bytes(DType dtype, const ConvolutionGeometry& g);
void forward(DType dtype, const ConvolutionGeometry& g, void* y, const void* x, const void* w,
             void* workspace);
void backward_input(DType dtype, const ConvolutionGeometry& g, void* dx, const void* dy,
                    const void* w, void* workspace);
void backward_weight(DType dtype, const ConvolutionGeometry& g, float* dw, const void* dy,
                     const void* x, void* workspace);

}  // namespace trireme::ops::cpu::by_dnnl
