// SPDX-License-Identifier: Apache-2.0
// Private to the convolution kernels: image windows that their implicit matrix products gather.
#pragma once

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/convolution_geometry.h"
#include "runtime/ops/gemm/matmul_tile_cuda.h"

namespace trireme::ops::cuda {

constexpr int nowhere = 0x40000000;  // outside every image

// The part of a ConvolutionGeometry that kernels read.
struct Extents {
  int batch, height, width, in, out_height, out_width, out, kernel_height, kernel_width;
  int stride, padding;

  explicit Extents(const ConvolutionGeometry& g)
      : batch(fit(g.batch)),
        height(fit(g.height)),
        width(fit(g.width)),
        in(fit(g.in)),
        out_height(fit(g.out_height)),
        out_width(fit(g.out_width)),
        out(fit(g.out)),
        kernel_height(fit(g.kernel_height)),
        kernel_width(fit(g.kernel_width)),
        stride(fit(g.stride)),
        padding(fit(g.padding)) {
    fit(g.batch * g.height * g.width);
    fit(g.batch * g.out_height * g.out_width);
    fit(g.out * g.kernel_height * g.kernel_width * g.in);
  }
  __host__ __device__ int pixels() const { return batch * out_height * out_width; }
  __host__ __device__ int taps() const { return kernel_height * kernel_width * in; }

 private:
  // Pixels and taps are counted in int, with some headroom.
  static int fit(std::int64_t extent) {
    TRIREME_EXPECTS(extent < nowhere, "convolution: {} pixels or taps are too many", extent);
    return static_cast<int>(extent);
  }
};

// A tile's place for a pixel: where its window begins in the other image.
struct Window {
  std::int64_t image_row;  // first row of its image, over the whole batch
  int top, left;
};

// Far above any image, so nothing is read.
__device__ inline Window no_window() {
  return {0, -nowhere, 0};
}

// The window in x of output pixel `pixel` (of all images).
__device__ inline Window input_window(const Extents& g, int pixel) {
  if (pixel >= g.pixels()) return no_window();
  const int row = pixel / g.out_width, column = pixel % g.out_width;
  const int image = row / g.out_height;
  return {static_cast<std::int64_t>(image) * g.height,
          (row - image * g.out_height) * g.stride - g.padding, column * g.stride - g.padding};
}

// Element (kernel row, kernel column, channel) of a window, 0 in the padding.
template <typename T>
__device__ float in_window(const T* image, int height, int width, int channels, const Window& from,
                           int row, int column, int channel) {
  const int h = from.top + row, w = from.left + column;
  if (h < 0 || h >= height || w < 0 || w >= width) return 0.0F;
  return load(image[((from.image_row + h) * width + w) * channels + channel]);
}

}  // namespace trireme::ops::cuda
