// SPDX-License-Identifier: Apache-2.0
// Private: all extents of a convolution, for the back ends; a plain value.
#pragma once

#include <compare>

#include "runtime/ops/convolution/convolution.h"

namespace trireme::ops {

struct ConvolutionGeometry {
  std::int64_t batch, height, width, in, out_height, out_width, out, kernel_height, kernel_width;
  std::int64_t stride, padding;

  ConvolutionGeometry(const Shape& x, const Shape& w, const ConvolutionOptions& options);
  friend auto operator<=>(const ConvolutionGeometry&, const ConvolutionGeometry&) = default;
};

}  // namespace trireme::ops
