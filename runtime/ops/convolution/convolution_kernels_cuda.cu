// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_kernels_cuda.h"
#include "runtime/ops/convolution/convolution_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::ceil_div;
using trireme::cuda::launch;

// y(pixel, o) = sum over taps of x(pixel, tap) w(o, tap).
template <typename T>
__global__ void forward_kernel(Extents g, T* y, const T* x, const T* w) {
  __shared__ Panel rows;
  __shared__ Panel columns;
  __shared__ Window windows[tile];
  const int column_tiles = (g.out + tile - 1) / tile;
  const int pixel = static_cast<int>(blockIdx.x) / column_tiles * tile;
  const int channel = static_cast<int>(blockIdx.x) % column_tiles * tile;
  const int taps = g.taps();
  if (threadIdx.x < tile)
    windows[threadIdx.x] = input_window(g, pixel + static_cast<int>(threadIdx.x));
  __syncthreads();
  Sums sums;
  for (int first = 0; first < taps; first += depth) {
    const int tap = first + static_cast<int>(threadIdx.x) % depth;
    const int i = tap % g.in, column = tap / g.in % g.kernel_width;
    const int row = tap / (g.in * g.kernel_width);
    fill_along_terms(rows, [&](int place, int) {
      return tap < taps ? in_window(x, g.height, g.width, g.in, windows[place], row, column, i)
                        : 0.0F;
    });
    fill_along_terms(columns, [&](int place, int) {
      const int o = channel + place;
      return tap < taps && o < g.out ? load(w[static_cast<std::int64_t>(o) * taps + tap]) : 0.0F;
    });
    __syncthreads();
    sums.add(rows, columns);
    __syncthreads();
  }
  sums.give([&](int row, int column, float sum) {
    const int p = pixel + row, o = channel + column;
    if (p < g.pixels() && o < g.out) store(y[static_cast<std::int64_t>(p) * g.out + o], sum);
  });
}

// Rows (or columns) of x with the same remainder modulo the stride use every stride-th tap: their
// gradient is a convolution of dy without stride and without zeros between its terms.
struct Residue {
  int first_tap;  // of the taps first_tap, first_tap + stride, ...
  int taps;
  int offset;  // dy row = offset + (row of x) / stride - tap index
  int extent;  // number of such rows of x

  __device__ Residue(int remainder, int extent_of_x, int kernel, int stride, int padding)
      : first_tap((remainder + padding) % stride),
        taps(first_tap < kernel ? (kernel - first_tap + stride - 1) / stride : 0),
        offset((remainder + padding - first_tap) / stride),
        extent(remainder < extent_of_x ? (extent_of_x - remainder + stride - 1) / stride : 0) {}
};

// dx(pixel, i) = sum over (tap, o) of dy(pixel - tap, o) w(o, tap, i), a remainder pair per block.
template <typename T>
__global__ void backward_input_kernel(Extents g, int pixel_tiles, T* dx, const T* dy, const T* w) {
  __shared__ Panel rows;
  __shared__ Panel columns;
  __shared__ Window windows[tile];
  __shared__ std::int64_t targets[tile];  // pixels of dx, over the whole batch; -1: none
  const int column_tiles = (g.in + tile - 1) / tile;
  const int channel = static_cast<int>(blockIdx.x) % column_tiles * tile;
  const int first_pixel = static_cast<int>(blockIdx.x) / column_tiles % pixel_tiles * tile;
  const int residue = static_cast<int>(blockIdx.x) / column_tiles / pixel_tiles;
  const int row_remainder = residue / g.stride, column_remainder = residue % g.stride;
  const Residue vertical(row_remainder, g.height, g.kernel_height, g.stride, g.padding);
  const Residue horizontal(column_remainder, g.width, g.kernel_width, g.stride, g.padding);
  const int pixels = g.batch * vertical.extent * horizontal.extent;
  if (first_pixel >= pixels) return;
  if (threadIdx.x < tile) {
    const int pixel = first_pixel + static_cast<int>(threadIdx.x);
    const int row = pixel / horizontal.extent, w_step = pixel % horizontal.extent;
    const int image = row / vertical.extent, h_step = row % vertical.extent;
    const bool inside = pixel < pixels;
    windows[threadIdx.x] = inside ? Window{static_cast<std::int64_t>(image) * g.out_height,
                                           vertical.offset + h_step, horizontal.offset + w_step}
                                  : no_window();
    targets[threadIdx.x] =
        inside ? (static_cast<std::int64_t>(image) * g.height + row_remainder + h_step * g.stride) *
                         g.width +
                     column_remainder + w_step * g.stride
               : -1;
  }
  __syncthreads();
  const int terms = vertical.taps * horizontal.taps * g.out;
  Sums sums;
  for (int first = 0; first < terms; first += depth) {
    const int term = first + static_cast<int>(threadIdx.x) % depth;
    fill_along_terms(rows, [&](int place, int) {
      const int tap = term / g.out;
      return term < terms
                 ? in_window(dy, g.out_height, g.out_width, g.out, windows[place],
                             -(tap / horizontal.taps), -(tap % horizontal.taps), term % g.out)
                 : 0.0F;
    });
    fill_along_places(columns, [&](int place, int step) {
      const int o = (first + step) % g.out, tap = (first + step) / g.out;
      const int i = channel + place;
      if (first + step >= terms || i >= g.in) return 0.0F;
      const int row = vertical.first_tap + tap / horizontal.taps * g.stride;
      const int column = horizontal.first_tap + tap % horizontal.taps * g.stride;
      return load(
          w[((static_cast<std::int64_t>(o) * g.kernel_height + row) * g.kernel_width + column) *
                g.in +
            i]);
    });
    __syncthreads();
    sums.add(rows, columns);
    __syncthreads();
  }
  sums.give([&](int row, int column, float sum) {
    const int i = channel + column;
    if (targets[row] >= 0 && i < g.in) store(dx[targets[row] * g.in + i], sum);
  });
}

}  // namespace

void simt_convolution_forward(Stream& stream, const ConvolutionGeometry& g, const Tensor& y,
                              const Tensor& x, const Tensor& w) {
  const Extents e(g);
  const std::int64_t blocks = ceil_div(e.pixels(), tile) * ceil_div(e.out, tile);
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    launch(stream, {.blocks = blocks, .threads = threads}, forward_kernel<T>, e, y.as<T>(),
           x.as<T>(), w.as<T>());
  });
}

void simt_convolution_backward_input(Stream& stream, const ConvolutionGeometry& g, const Tensor& dx,
                                     const Tensor& dy, const Tensor& w) {
  const std::int64_t pixel_tiles =
      ceil_div(g.batch * ceil_div(g.height, g.stride) * ceil_div(g.width, g.stride), tile);
  const std::int64_t blocks = g.stride * g.stride * pixel_tiles * ceil_div(g.in, tile);
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    launch(stream, {.blocks = blocks, .threads = threads}, backward_input_kernel<T>, Extents(g),
           static_cast<int>(pixel_tiles), dx.as<T>(), dy.as<T>(), w.as<T>());
  });
}

}  // namespace trireme::ops::cuda
