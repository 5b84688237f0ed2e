// SPDX-License-Identifier: Apache-2.0
// The input pixels of a window and the windows of an input pixel, shared by all back ends.
#pragma once

#include <algorithm>

#include "runtime/base/host_device.h"
#include "runtime/ops/convolution/pooling.h"

namespace trireme::ops {

struct PoolingGeometry {
  std::int64_t batch, height, width, channels, out_height, out_width;
  PoolingOptions options;

  PoolingGeometry(const Shape& x, const Shape& y, const PoolingOptions& pooling)
      : batch(x[0]),
        height(x[1]),
        width(x[2]),
        channels(x[3]),
        out_height(y[1]),
        out_width(y[2]),
        options(pooling) {}
};

// Positions of the window at output coordinate `out` inside [0, size): [first, last).
struct WindowRange {
  std::int64_t origin, first, last;

  TRIREME_HOST_DEVICE WindowRange(std::int64_t out, std::int64_t size,
                                  const PoolingOptions& options)
      : origin(out * options.stride - options.padding),
        first(std::max<std::int64_t>(0, -origin)),
        last(std::min(options.window, size - origin)) {}
};

// Output coordinates whose window contains input coordinate `in`: [first, last].
struct CoverRange {
  std::int64_t first, last;

  TRIREME_HOST_DEVICE CoverRange(std::int64_t in, std::int64_t out_size,
                                 const PoolingOptions& options) {
    const std::int64_t shifted = in + options.padding;
    const std::int64_t beyond = shifted - options.window + 1;
    first = beyond <= 0 ? 0 : (beyond + options.stride - 1) / options.stride;
    last = std::min(out_size - 1, shifted / options.stride);
  }
};

// Pixels that an average sums before it adds them to the total, for less rounding.
inline constexpr std::int64_t average_run = 32;

}  // namespace trireme::ops
