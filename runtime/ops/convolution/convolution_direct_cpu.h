// SPDX-License-Identifier: Apache-2.0
// Private: direct convolution on NHWC in fp32. A strip of input rows that fits the second-level
// cache is copied once, with zero padding and as f32 (so bf16 operands are computed in f32 and
// rounded once), and register tiles run over it. No im2col matrix: in NHWC the taps of a kernel row
// are contiguous.
#pragma once

#include <cstddef>

#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops::cpu::direct {

[[nodiscard]] std::size_t workspace_bytes(DType dtype, const ConvolutionGeometry& g);
template <typename T>
void forward(const ConvolutionGeometry& g, T* y, const T* x, const T* w, std::byte* workspace);
template <typename T>
void backward_input(const ConvolutionGeometry& g, T* dx, const T* dy, const T* w,
                    std::byte* workspace);
template <typename T>
void backward_weight(const ConvolutionGeometry& g, float* dw, const T* dy, const T* x,
                     std::byte* workspace);

}  // namespace trireme::ops::cpu::direct
