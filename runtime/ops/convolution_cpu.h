// SPDX-License-Identifier: Apache-2.0
// Private: what the CPU's two ways to convolve share (convolution_direct.h, convolution_dnnl.h).
#pragma once

#include "runtime/ops/convolution.h"

namespace trireme::ops::cpu {

// Every extent of one convolution; a plain value that travels into stream tasks.
struct ConvolutionGeometry {
  std::int64_t batch, height, width, in, out_height, out_width, out, kernel_height, kernel_width;
  std::int64_t stride, padding;

  ConvolutionGeometry(const Shape& x, const Shape& w, const ConvolutionOptions& options);
};

[[nodiscard]] std::size_t convolution_workspace_bytes(DType dtype, const Shape& x, const Shape& w,
                                                      const ConvolutionOptions& options);

}  // namespace trireme::ops::cpu
