// SPDX-License-Identifier: Apache-2.0
// Private to the convolution kernels: image windows that their implicit matrix products gather.
#pragma once

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/convolution/convolution_geometry.h"
#include "runtime/ops/gemm/matmul_tile_cuda.h"

namespace trireme::ops::cuda {

constexpr int nowhere = 0x40000000;  // outside every image

// A number per axis.
struct Box {
  int depth, height, width;

  __host__ __device__ int volume() const { return depth * height * width; }
};

// The part of a ConvolutionGeometry that kernels read.
struct Extents {
  int batch, in, out, groups, group_in, group_out;
  Box x, y, kernel, stride, padding, dilation;

  explicit Extents(const ConvolutionGeometry& g)
      : batch(fit(g.batch)),
        in(fit(g.in)),
        out(fit(g.out)),
        groups(fit(g.groups)),
        group_in(in / groups),
        group_out(out / groups),
        x(box(g, &WindowAxis::extent)),
        y(box(g, &WindowAxis::out)),
        kernel(box(g, &WindowAxis::window)),
        stride(box(g, &WindowAxis::stride)),
        padding(box(g, &WindowAxis::padding)),
        dilation(box(g, &WindowAxis::dilation)) {
    fit(g.batch * g.in_pixels());
    fit(g.batch * g.out_pixels());
    fit(g.out * g.taps());
  }
  __host__ __device__ int pixels() const { return batch * y.volume(); }
  __host__ __device__ int taps() const { return kernel.volume() * group_in; }

 private:
  // Pixels and taps are counted in int, with some headroom.
  static int fit(std::int64_t extent) {
    TRIREME_EXPECTS(extent < nowhere, "convolution: {} pixels or taps are too many", extent);
    return static_cast<int>(extent);
  }
  static Box box(const ConvolutionGeometry& g, std::int64_t WindowAxis::*value) {
    return {fit(g.axes.depth.*value), fit(g.axes.height.*value), fit(g.axes.width.*value)};
  }
};

// A tile's place for a pixel: where its window begins in the other tensor.
struct Window {
  int sample, front, top, left;
};

// Far above any image, so nothing is read.
__device__ inline Window no_window() {
  return {0, 0, -nowhere, 0};
}

// The window in x of output pixel `pixel` (of all samples).
__device__ inline Window input_window(const Extents& g, int pixel) {
  if (pixel >= g.pixels()) return no_window();
  const int row = pixel / g.y.width, plane = row / g.y.height, sample = plane / g.y.depth;
  return {sample, (plane - sample * g.y.depth) * g.stride.depth - g.padding.depth,
          (row - plane * g.y.height) * g.stride.height - g.padding.height,
          (pixel - row * g.y.width) * g.stride.width - g.padding.width};
}

// An element's distance from where its window begins, and its channel.
struct Offset {
  int depth, row, column, channel;
};

// Of tap `tap` of a filter of group `group`, in x.
__device__ inline Offset input_offset(const Extents& g, int group, int tap) {
  const int place = tap / g.group_in, row = place / g.kernel.width;
  return {row / g.kernel.height * g.dilation.depth, row % g.kernel.height * g.dilation.height,
          place % g.kernel.width * g.dilation.width, group * g.group_in + tap % g.group_in};
}

// That element, 0 in the padding.
template <typename T>
__device__ float in_window(const T* data, const Box& extents, int channels, const Window& from,
                           const Offset& at) {
  const int d = from.front + at.depth, h = from.top + at.row, w = from.left + at.column;
  if (d < 0 || d >= extents.depth || h < 0 || h >= extents.height || w < 0 || w >= extents.width)
    return 0.0F;
  const std::int64_t plane = static_cast<std::int64_t>(from.sample) * extents.depth + d;
  return load(data[((plane * extents.height + h) * extents.width + w) * channels + at.channel]);
}

// What a block computes: a tile of channels of one group, and the rest of its index.
struct ChannelTile {
  int group, first, rest;  // `first` channel within the group

  __device__ ChannelTile(int groups, int group_channels) {
    const int tiles = (group_channels + tile - 1) / tile, index = static_cast<int>(blockIdx.x);
    rest = index / (tiles * groups);
    group = index / tiles % groups;
    first = index % tiles * tile;
  }
};

}  // namespace trireme::ops::cuda
