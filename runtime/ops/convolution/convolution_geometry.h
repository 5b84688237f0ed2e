// SPDX-License-Identifier: Apache-2.0
// Private: all extents of a convolution, for the back ends; plain values.
#pragma once

#include <compare>

#include "runtime/ops/convolution/convolution.h"
#include "runtime/ops/convolution/window_axes.h"

namespace trireme::ops {

// Volumes whose windows are one position deep are a batch of images here.
struct ConvolutionGeometry {
  std::int64_t batch, in, out, groups;
  WindowAxes axes;

  ConvolutionGeometry(const Shape& x, const Shape& w, const ConvolutionOptions& options);

  // Else one of images: the depth is 1.
  [[nodiscard]] bool volumes() const { return !axes.depth.plain(); }
  [[nodiscard]] bool dilated() const {
    return axes.depth.dilation * axes.height.dilation * axes.width.dilation > 1;
  }
  [[nodiscard]] std::int64_t in_pixels() const {
    return axes.depth.extent * axes.height.extent * axes.width.extent;  // of one sample
  }
  [[nodiscard]] std::int64_t out_pixels() const {
    return axes.depth.out * axes.height.out * axes.width.out;
  }
  // Products per element of y.
  [[nodiscard]] std::int64_t taps() const {
    return axes.depth.window * axes.height.window * axes.width.window * (in / groups);
  }
  friend auto operator<=>(const ConvolutionGeometry&, const ConvolutionGeometry&) = default;
};

// Images with one stride and one padding, undilated and in one group: what the CPU's own kernels
// compute.
struct PlaneGeometry {
  std::int64_t batch, height, width, in, out_height, out_width, out, kernel_height, kernel_width;
  std::int64_t stride, padding;

  [[nodiscard]] static bool covers(const ConvolutionGeometry& g);
  explicit PlaneGeometry(const ConvolutionGeometry& g);
};

}  // namespace trireme::ops
