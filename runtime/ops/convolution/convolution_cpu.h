// SPDX-License-Identifier: Apache-2.0
// Private: what the CPU's two ways to convolve share (convolution_direct_cpu.h,
// convolution_dnnl_cpu.h).
#pragma once

#include "runtime/ops/convolution/convolution_geometry.h"

namespace trireme::ops::cpu {

[[nodiscard]] std::size_t convolution_workspace_bytes(DType dtype, const Shape& x, const Shape& w,
                                                      const ConvolutionOptions& options);

}  // namespace trireme::ops::cpu
