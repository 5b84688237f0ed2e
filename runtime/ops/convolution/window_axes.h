// SPDX-License-Identifier: Apache-2.0
// Private: windows that slide over the spatial axes of a channels-last tensor, for convolution and
// pooling. Images are volumes with a depth of one.
#pragma once

#include <compare>
#include <string_view>

#include "runtime/base/shape.h"
#include "runtime/ops/convolution/per_axis.h"

namespace trireme::ops {

// Window i, for 0 <= i < out, holds positions i * stride - padding + k * dilation, 0 <= k < window.
struct WindowAxis {
  std::int64_t extent = 1, window = 1, stride = 1, padding = 0, dilation = 1, out = 1;

  // Whether windows are the single positions in order.
  [[nodiscard]] constexpr bool plain() const { return window == 1 && stride == 1 && padding == 0; }
  friend auto operator<=>(const WindowAxis&, const WindowAxis&) = default;
};

struct WindowAxes {
  WindowAxis depth, height, width;

  // For x(N, [D,] H, W, C). Refuses options of another number of axes or out of range, and windows
  // that are larger than the padded tensor; messages begin with `op`.
  WindowAxes(std::string_view op, const Shape& x, const PerAxis& window, const PerAxis& stride,
             const PerAxis& padding, const PerAxis& dilation);

  // (N, [D',] H', W', channels), of x's rank.
  [[nodiscard]] Shape output_shape(const Shape& x, std::int64_t channels) const;
  friend auto operator<=>(const WindowAxes&, const WindowAxes&) = default;
};

}  // namespace trireme::ops
