// SPDX-License-Identifier: Apache-2.0
// Private: scratch memory of a convolution on a GPU, from its shape alone: a build without CUDA
// plans the same bytes that a GPU run requests.
#pragma once

#include <algorithm>

#include "runtime/base/dtype.h"
#include "runtime/ops/convolution/convolution_geometry.h"

namespace trireme::ops::cuda {

// The engine's workspace limit for a cuDNN plan: a function of the shape, so memory is known before
// the plan. Tensor cores need multiples of eight channels; for other tensors (the first layer's 3,
// the classes of a last one) plans make a padded copy.
[[nodiscard]] inline std::size_t plan_workspace_limit(DType dtype, const ConvolutionGeometry& g) {
  const auto padded = [&](std::int64_t pixels, std::int64_t channels) {
    return channels % 8 == 0 ? 0 : g.batch * pixels * (channels / 8 + 1) * 8;
  };
  const std::int64_t copies = padded(g.in_pixels(), g.in) + padded(g.out_pixels(), g.out);
  return (std::size_t{64} << 20) + static_cast<std::size_t>(copies) * size_of(dtype);
}

// How backward_weight of our own kernels divides the pixels: into enough blocks for any GPU, so the
// sums and the workspace depend only on the shape.
struct WeightParts {
  static constexpr std::int64_t tile = 64, depth = 32;  // as in matmul_tile_cuda.h
  std::int64_t run;                                     // pixels per part, whole panels
  std::int64_t count;
  std::int64_t tiles;

  explicit WeightParts(const ConvolutionGeometry& g) {
    constexpr std::int64_t blocks = 1024, shortest_run = 512;
    const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const std::int64_t pixels = g.batch * g.out_pixels();
    tiles = g.groups * ceil_div(g.out / g.groups, tile) * ceil_div(g.taps(), tile);
    const std::int64_t wanted =
        std::clamp<std::int64_t>(blocks / tiles, 1, ceil_div(pixels, shortest_run));
    run = ceil_div(ceil_div(pixels, wanted), depth) * depth;
    count = ceil_div(pixels, run);
  }
};

// Elements of the filters.
[[nodiscard]] inline std::int64_t filter_elements(const ConvolutionGeometry& g) {
  return g.out * g.taps();
}

// cuDNN's dw before it is added; precedes its own scratch.
[[nodiscard]] inline std::size_t gradient_bytes(const ConvolutionGeometry& g) {
  return (static_cast<std::size_t>(filter_elements(g)) * sizeof(float) + 255) / 256 * 256;
}

// The maximum of the three passes. `cudnn`: whether it may run them; our own kernels may be needed
// in any case.
[[nodiscard]] inline std::size_t workspace_bytes(DType dtype, const ConvolutionGeometry& g,
                                                 bool cudnn) {
  const auto own =
      static_cast<std::size_t>(WeightParts(g).count * filter_elements(g)) * sizeof(float);
  return cudnn ? std::max(own, gradient_bytes(g) + plan_workspace_limit(dtype, g)) : own;
}

}  // namespace trireme::ops::cuda

namespace trireme::ops::cpu {

// For the CPU's two implementations (convolution_direct_cpu.h, convolution_dnnl_cpu.h).
[[nodiscard]] std::size_t convolution_workspace_bytes(DType dtype, const Shape& x, const Shape& w,
                                                      const ConvolutionOptions& options);

}  // namespace trireme::ops::cpu
