// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_kernels_cuda.h"
#include "runtime/ops/convolution/convolution_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

// y(pixel, o) = sum over taps of x(pixel, tap) w(o, tap).
template <typename T>
__global__ void forward_kernel(Extents g, T* y, const T* x, const T* w) {
  __shared__ Panel rows;
  __shared__ Panel columns;
  __shared__ Window windows[tile];
  const ChannelTile channels(g.groups, g.group_out);
  const int pixel = channels.rest * tile, first_out = channels.group * g.group_out;
  const int taps = g.taps();
  if (threadIdx.x < tile)
    windows[threadIdx.x] = input_window(g, pixel + static_cast<int>(threadIdx.x));
  __syncthreads();
  Sums sums;
  for (int first = 0; first < taps; first += depth) {
    const int tap = first + static_cast<int>(threadIdx.x) % depth;
    const Offset at = input_offset(g, channels.group, tap);
    fill_along_terms(rows, [&](int place, int) {
      return tap < taps ? in_window(x, g.x, g.in, windows[place], at) : 0.0F;
    });
    fill_along_terms(columns, [&](int place, int) {
      const int o = channels.first + place;
      return tap < taps && o < g.group_out
                 ? load(w[static_cast<std::int64_t>(first_out + o) * taps + tap])
                 : 0.0F;
    });
    __syncthreads();
    sums.add(rows, columns);
    __syncthreads();
  }
  sums.give([&](int row, int column, float sum) {
    const int p = pixel + row, o = channels.first + column;
    if (p < g.pixels() && o < g.group_out)
      store(y[static_cast<std::int64_t>(p) * g.out + first_out + o], sum);
  });
}

// Positions of x along an axis with the same remainder modulo the stride use the same taps:
// first_tap, first_tap + tap_step, ... Their gradient is a convolution of dy without stride and
// without zeros between its terms.
struct Residue {
  int first_tap, tap_step;
  int taps;
  int offset;  // dy position = offset + (position of x) / stride - back * (index of the tap)
  int back;
  int extent;  // number of such positions of x

  __device__ Residue(int remainder, int extent_of_x, int kernel, int stride, int padding,
                     int dilation)
      : first_tap(0),
        tap_step(1),
        extent(remainder < extent_of_x ? (extent_of_x - remainder + stride - 1) / stride : 0) {
    while (first_tap < kernel && (remainder + padding - dilation * first_tap) % stride != 0)
      ++first_tap;
    while (dilation * tap_step % stride != 0)
      ++tap_step;
    taps = first_tap < kernel ? (kernel - first_tap + tap_step - 1) / tap_step : 0;
    offset = (remainder + padding - dilation * first_tap) / stride;
    back = dilation * tap_step / stride;
  }
};

// The residues of a block on the three axes.
struct Residues {
  int depth_remainder, row_remainder, column_remainder;
  Residue depth, vertical, horizontal;

  __device__ Residues(const Extents& g, int index)
      : depth_remainder(index / (g.stride.height * g.stride.width)),
        row_remainder(index / g.stride.width % g.stride.height),
        column_remainder(index % g.stride.width),
        depth(depth_remainder, g.x.depth, g.kernel.depth, g.stride.depth, g.padding.depth,
              g.dilation.depth),
        vertical(row_remainder, g.x.height, g.kernel.height, g.stride.height, g.padding.height,
                 g.dilation.height),
        horizontal(column_remainder, g.x.width, g.kernel.width, g.stride.width, g.padding.width,
                   g.dilation.width) {}

  __device__ int pixels(const Extents& g) const {
    return g.batch * depth.extent * vertical.extent * horizontal.extent;
  }
  // Where pixel `index` of these begins in dy, and (through `target`) which it is of dx.
  __device__ Window window(const Extents& g, int index, std::int64_t& target) const {
    const int row = index / horizontal.extent, w_step = index % horizontal.extent;
    const int plane = row / vertical.extent, h_step = row % vertical.extent;
    const int sample = plane / depth.extent, d_step = plane % depth.extent;
    const std::int64_t d =
        static_cast<std::int64_t>(sample) * g.x.depth + depth_remainder + d_step * g.stride.depth;
    target = (d * g.x.height + row_remainder + h_step * g.stride.height) * g.x.width +
             column_remainder + w_step * g.stride.width;
    return {sample, depth.offset + d_step, vertical.offset + h_step, horizontal.offset + w_step};
  }
};

// dx(pixel, i) = sum over (tap, o) of dy(pixel - tap, o) w(o, tap, i), for one choice of remainders
// per block.
template <typename T>
__global__ void backward_input_kernel(Extents g, int pixel_tiles, T* dx, const T* dy, const T* w) {
  __shared__ Panel rows;
  __shared__ Panel columns;
  __shared__ Window windows[tile];
  __shared__ std::int64_t targets[tile];  // pixels of dx, over the whole batch; -1: none
  const ChannelTile channels(g.groups, g.group_in);
  const int first_pixel = channels.rest % pixel_tiles * tile;
  const int first_out = channels.group * g.group_out, first_in = channels.group * g.group_in;
  const Residues residues(g, channels.rest / pixel_tiles);
  const int pixels = residues.pixels(g);
  if (first_pixel >= pixels) return;
  if (threadIdx.x < tile) {
    const int pixel = first_pixel + static_cast<int>(threadIdx.x);
    targets[threadIdx.x] = -1;
    windows[threadIdx.x] =
        pixel < pixels ? residues.window(g, pixel, targets[threadIdx.x]) : no_window();
  }
  __syncthreads();
  const Residue &deep = residues.depth, &down = residues.vertical, &across = residues.horizontal;
  const int terms = deep.taps * down.taps * across.taps * g.group_out;
  Sums sums;
  for (int first = 0; first < terms; first += depth) {
    const int term = first + static_cast<int>(threadIdx.x) % depth;
    fill_along_terms(rows, [&](int place, int) {
      if (term >= terms) return 0.0F;
      const int tap = term / g.group_out, row = tap / across.taps;
      return in_window(dy, g.y, g.out, windows[place],
                       {-(row / down.taps) * deep.back, -(row % down.taps) * down.back,
                        -(tap % across.taps) * across.back, first_out + term % g.group_out});
    });
    fill_along_places(columns, [&](int place, int step) {
      const int i = channels.first + place;
      if (first + step >= terms || i >= g.group_in) return 0.0F;
      const int o = (first + step) % g.group_out, tap = (first + step) / g.group_out;
      const int row = tap / across.taps;
      const int kd = deep.first_tap + row / down.taps * deep.tap_step;
      const int kh = down.first_tap + row % down.taps * down.tap_step;
      const int kw = across.first_tap + tap % across.taps * across.tap_step;
      const std::int64_t plane = static_cast<std::int64_t>(first_out + o) * g.kernel.depth + kd;
      return load(w[((plane * g.kernel.height + kh) * g.kernel.width + kw) * g.group_in + i]);
    });
    __syncthreads();
    sums.add(rows, columns);
    __syncthreads();
  }
  sums.give([&](int row, int column, float sum) {
    const int i = channels.first + column;
    if (targets[row] >= 0 && i < g.group_in) store(dx[targets[row] * g.in + first_in + i], sum);
  });
}

}  // namespace

void simt_convolution_forward(Stream& stream, const ConvolutionGeometry& g, const Tensor& y,
                              const Tensor& x, const Tensor& w) {
  const Extents e(g);
  const std::int64_t blocks = ceil_div(e.pixels(), tile) * ceil_div(e.group_out, tile) * g.groups;
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    launch(stream, {.blocks = blocks, .threads = threads}, forward_kernel<T>, e, y.as<T>(),
           x.as<T>(), w.as<T>());
  });
}

void simt_convolution_backward_input(Stream& stream, const ConvolutionGeometry& g, const Tensor& dx,
                                     const Tensor& dy, const Tensor& w) {
  const Extents e(g);
  const auto per_residue = [](const WindowAxis& axis) {
    return ceil_div(axis.extent, axis.stride);
  };
  const WindowAxes& a = g.axes;
  const std::int64_t pixel_tiles =
      ceil_div(g.batch * per_residue(a.depth) * per_residue(a.height) * per_residue(a.width), tile);
  const std::int64_t residues = a.depth.stride * a.height.stride * a.width.stride;
  const std::int64_t blocks = residues * pixel_tiles * ceil_div(e.group_in, tile) * g.groups;
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    launch(stream, {.blocks = blocks, .threads = threads}, backward_input_kernel<T>, e,
           static_cast<int>(pixel_tiles), dx.as<T>(), dy.as<T>(), w.as<T>());
  });
}

}  // namespace trireme::ops::cuda
