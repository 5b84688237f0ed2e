// SPDX-License-Identifier: Apache-2.0
// Private: convolution by oneDNN of f16, and of bf16 on processors that do not multiply it: one
// sample after the other is widened to f32, and its results are rounded once.
#pragma once

#include <cstddef>

#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops::cpu::widened {

[[nodiscard]] std::size_t workspace_bytes(const ConvolutionGeometry& g);
template <typename T>
void forward(const ConvolutionGeometry& g, T* y, const T* x, const T* w, std::byte* workspace);
template <typename T>
void backward_input(const ConvolutionGeometry& g, T* dx, const T* dy, const T* w,
                    std::byte* workspace);
template <typename T>
void backward_weight(const ConvolutionGeometry& g, float* dw, const T* dy, const T* x,
                     std::byte* workspace);

}  // namespace trireme::ops::cpu::widened
