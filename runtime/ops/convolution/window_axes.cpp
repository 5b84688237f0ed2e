// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/window_axes.h"

namespace trireme::ops {

std::string PerAxis::to_string() const {
  if (count_ == 1) return std::to_string(values_[0]);
  return count_ == 2 ? Shape{values_[1], values_[2]}.to_string()
                     : Shape{values_[0], values_[1], values_[2]}.to_string();
}

WindowAxes::WindowAxes(std::string_view op, const Shape& x, const PerAxis& window,
                       const PerAxis& stride, const PerAxis& padding, const PerAxis& dilation) {
  TRIREME_EXPECTS(x.rank() == 4 || x.rank() == 5,
                  "{}: x has shape {}, expected (N, H, W, C) or (N, D, H, W, C)", op,
                  x.to_string());
  const std::size_t axes = x.rank() - 2;
  TRIREME_EXPECTS(
      window.fits(axes) && stride.fits(axes) && padding.fits(axes) && dilation.fits(axes),
      "{}: window {}, stride {}, padding {}, dilation {} of x {}: expected one number or {}", op,
      window.to_string(), stride.to_string(), padding.to_string(), dilation.to_string(),
      x.to_string(), axes);
  const std::array<WindowAxis*, 3> all{&depth, &height, &width};
  for (std::size_t i = 3 - axes; i < 3; ++i) {
    WindowAxis& axis = *all[i];
    axis = {x[i + axes - 2], window[i], stride[i], padding[i], dilation[i], 0};
    TRIREME_EXPECTS(
        axis.window >= 1 && axis.stride >= 1 && axis.padding >= 0 && axis.dilation >= 1,
        "{}: window {}, stride {}, padding {}, dilation {}: expected at least 1, 1, 0 and 1", op,
        window.to_string(), stride.to_string(), padding.to_string(), dilation.to_string());
    if (axis.window == 1) axis.dilation = 1;
    const std::int64_t span =
        axis.extent + 2 * axis.padding - (axis.window - 1) * axis.dilation - 1;
    TRIREME_EXPECTS(span >= 0,
                    "{}: x {} with padding {} is smaller than the window {} with dilation {}", op,
                    x.to_string(), padding.to_string(), window.to_string(), dilation.to_string());
    axis.out = span / axis.stride + 1;
  }
}

Shape WindowAxes::output_shape(const Shape& x, std::int64_t channels) const {
  return x.rank() == 4 ? Shape{x[0], height.out, width.out, channels}
                       : Shape{x[0], depth.out, height.out, width.out, channels};
}

}  // namespace trireme::ops
