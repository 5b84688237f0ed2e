// SPDX-License-Identifier: Apache-2.0
// Weight gradients: the pixels are cut into runs, each block sums one run, and the sums are added
// in order. No atomics.
#include "runtime/ops/convolution/convolution_kernels_cuda.h"
#include "runtime/ops/convolution/convolution_tile_cuda.h"
#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops::cuda {
namespace {

// part(o, tap) = sum over one run of pixels of dy(pixel, o) x(pixel, tap).
template <typename T>
__global__ void backward_weight_kernel(Extents g, int run, float* parts, const T* dy, const T* x) {
  __shared__ Panel rows;
  __shared__ Panel columns;
  __shared__ Window windows[depth];
  const int taps = g.taps();
  const int column_tiles = (taps + tile - 1) / tile;
  const ChannelTile channels(g.groups, g.group_out);
  const int first_out = channels.group * g.group_out;
  const int first_tap = channels.rest % column_tiles * tile;
  const int part = channels.rest / column_tiles;
  const int begin = part * run, end = std::min(begin + run, g.pixels());
  const int tap = first_tap + static_cast<int>(threadIdx.x) % tile;
  const Offset at = input_offset(g, channels.group, tap);
  Sums sums;
  for (int first = begin; first < end; first += depth) {
    if (threadIdx.x < depth) {
      const int pixel = first + static_cast<int>(threadIdx.x);
      windows[threadIdx.x] = pixel < end ? input_window(g, pixel) : no_window();
    }
    fill_along_places(rows, [&](int place, int step) {
      const int o = channels.first + place;
      return first + step < end && o < g.group_out
                 ? load(dy[static_cast<std::int64_t>(first + step) * g.out + first_out + o])
                 : 0.0F;
    });
    __syncthreads();
    fill_along_places(columns, [&](int, int step) {
      return tap < taps ? in_window(x, g.x, g.in, windows[step], at) : 0.0F;
    });
    __syncthreads();
    sums.add(rows, columns);
    __syncthreads();
  }
  float* const result = parts + static_cast<std::int64_t>(part) * g.out * taps;
  sums.give([&](int place, int column, float sum) {
    const int o = channels.first + place, t = first_tap + column;
    if (o < g.group_out && t < taps)
      result[static_cast<std::int64_t>(first_out + o) * taps + t] = sum;
  });
}

template <typename T>
__global__ void add_parts_kernel(float* dw, const T* parts, std::int64_t count, std::int64_t n) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    float sum = load(parts[i]);
    for (std::int64_t part = 1; part < n; ++part)
      sum += load(parts[part * count + i]);
    dw[i] += sum;
  }
}

static_assert(WeightParts::tile == tile && WeightParts::depth == depth);

}  // namespace

void simt_convolution_backward_weight(Stream& stream, const ConvolutionGeometry& g,
                                      const Tensor& dw, const Tensor& dy, const Tensor& x,
                                      const Tensor& workspace) {
  const Extents e(g);
  const WeightParts parts(g);
  auto* const sums = reinterpret_cast<float*>(workspace.data);
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    launch(stream, {.blocks = parts.tiles * parts.count, .threads = threads},
           backward_weight_kernel<T>, e, static_cast<int>(parts.run), sums, dy.as<T>(), x.as<T>());
  });
  add_weight_gradients(stream, dw, workspace.data, DType::f32, parts.count);
}

void add_weight_gradients(Stream& stream, const Tensor& dw, const std::byte* from, DType dtype,
                          std::int64_t parts) {
  visit_compute_dtype(dtype, [&]<typename T>(T) {
    launch(stream, grid_for(stream, dw.count(), threads), add_parts_kernel<T>, dw.as<float>(),
           reinterpret_cast<const T*>(from), dw.count(), parts);
  });
}

}  // namespace trireme::ops::cuda
