// SPDX-License-Identifier: Apache-2.0
// The input pixels of a window and the windows of an input pixel, shared by all back ends: nvcc
// compiles constexpr functions for kernels too.
#pragma once

#include <algorithm>

#include "runtime/ops/convolution/pooling.h"
#include "runtime/ops/convolution/window_axes.h"

namespace trireme::ops {

struct PoolingGeometry {
  std::int64_t batch, channels;
  WindowAxes axes;

  PoolingGeometry(const Shape& x, const PoolingOptions& o)
      : batch(x[0]), channels(x.back()), axes("pooling", x, o.window, o.stride, o.padding, 1) {}
  // Elements of a sample of x and of y.
  constexpr std::int64_t in_count() const {
    return axes.depth.extent * axes.height.extent * axes.width.extent * channels;
  }
  constexpr std::int64_t out_count() const {
    return axes.depth.out * axes.height.out * axes.width.out * channels;
  }
};

// Pixels of a sample of x(N, ..., C).
[[nodiscard]] inline std::int64_t pixels_of(const Shape& x) {
  return x.count() / (x[0] * x.back());
}

// Positions of the window at output coordinate `out` inside the axis: [first, last).
struct WindowRange {
  std::int64_t origin, first, last;

  constexpr WindowRange(std::int64_t out, const WindowAxis& axis)
      : origin(out * axis.stride - axis.padding),
        first(std::max<std::int64_t>(0, -origin)),
        last(std::min(axis.window, axis.extent - origin)) {}
  constexpr std::int64_t count() const { return last - first; }
};

// Output coordinates whose window contains input coordinate `in`: [first, last].
struct CoverRange {
  std::int64_t first, last;

  constexpr CoverRange(std::int64_t in, const WindowAxis& axis) : first(in), last(in) {
    if (axis.plain()) return;  // the depth of images, without its divisions
    const std::int64_t shifted = in + axis.padding;
    const std::int64_t beyond = shifted - axis.window + 1;
    first = beyond <= 0 ? 0 : (beyond + axis.stride - 1) / axis.stride;
    last = std::min(axis.out - 1, shifted / axis.stride);
  }
};

// A pixel of x or y.
struct Pixel {
  std::int64_t sample, depth, height, width;
};

// Pixel `index` of a batch whose samples have the extents that `value` names.
constexpr Pixel pixel_at(const WindowAxes& axes, std::int64_t WindowAxis::*value,
                         std::int64_t index) {
  const std::int64_t row = index / (axes.width.*value), plane = row / (axes.height.*value);
  return {plane / (axes.depth.*value), plane % (axes.depth.*value), row % (axes.height.*value),
          index % (axes.width.*value)};
}

// Its window in x.
struct PixelWindow {
  WindowRange depth, height, width;

  constexpr PixelWindow(const WindowAxes& axes, const Pixel& y)
      : depth(y.depth, axes.depth), height(y.height, axes.height), width(y.width, axes.width) {}
  constexpr float share() const {
    return 1.0F / static_cast<float>(depth.count() * height.count() * width.count());
  }
  // Calls body(position inside the window, pixel of x in its sample), in order.
  template <typename Body>
  constexpr void for_each(const WindowAxes& axes, const Body& body) const {
    for (std::int64_t i = depth.first; i < depth.last; ++i) {
      for (std::int64_t j = height.first; j < height.last; ++j) {
        const std::int64_t at = (i * axes.height.window + j) * axes.width.window;
        const std::int64_t row = (depth.origin + i) * axes.height.extent + height.origin + j;
        const std::int64_t first = row * axes.width.extent + width.origin;
        for (std::int64_t k = width.first; k < width.last; ++k)
          body(static_cast<int>(at + k), first + k);
      }
    }
  }
};

// Calls body(pixel of y, its index in its sample, position of pixel x inside its window) for every
// window that contains x, in order.
template <typename Body>
constexpr void for_each_cover(const WindowAxes& axes, const Pixel& x, const Body& body) {
  const CoverRange planes(x.depth, axes.depth), rows(x.height, axes.height),
      columns(x.width, axes.width);
  for (std::int64_t d = planes.first; d <= planes.last; ++d) {
    const std::int64_t i = x.depth + axes.depth.padding - d * axes.depth.stride;
    for (std::int64_t h = rows.first; h <= rows.last; ++h) {
      const std::int64_t j = x.height + axes.height.padding - h * axes.height.stride;
      const std::int64_t first = (i * axes.height.window + j) * axes.width.window;
      const std::int64_t row = (d * axes.height.out + h) * axes.width.out;
      for (std::int64_t w = columns.first; w <= columns.last; ++w) {
        const std::int64_t k = x.width + axes.width.padding - w * axes.width.stride;
        body(Pixel{x.sample, d, h, w}, row + w, static_cast<int>(first + k));
      }
    }
  }
}

// Pixels that an average sums before it adds them to the total, for less rounding.
inline constexpr std::int64_t average_run = 32;

}  // namespace trireme::ops
