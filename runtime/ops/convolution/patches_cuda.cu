// SPDX-License-Identifier: Apache-2.0
// One thread per output pack; packs do not cross rows of a patch.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/convolution/patches_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;

struct PatchGrid {
  std::int64_t down, across, size, before;
  std::int64_t run;  // values per row of a patch
};

// Calls body(i) for the first values of this thread's packs of [0, count).
template <int width, typename Body>
__device__ void for_each_pack(std::int64_t count, const Body& body) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads * width;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
  for (; i < count; i += stride)
    body(i);
}

template <int width, typename T>
__global__ void cut_patches_kernel(T* y, const T* images, std::int64_t count, PatchGrid g) {
  for_each_pack<width>(count, [&](std::int64_t i) {
    const std::int64_t rows = g.before + g.down * g.across, line = i / g.run;
    const std::int64_t row = line % g.size, token = line / g.size;
    const std::int64_t patch = token % rows - g.before;
    if (patch < 0) return store_pack(y + i, Pack<T, width>{});
    const std::int64_t image_line = (token / rows * g.down + patch / g.across) * g.size + row;
    const T* const from = images + (image_line * g.across + patch % g.across) * g.run + i % g.run;
    store_pack(y + i, load_pack<width>(from));
  });
}

template <int width, typename T>
__global__ void edge_rows_kernel(T* y, const T* x, std::int64_t count, EdgeRows rows,
                                 std::int64_t channels) {
  for_each_pack<width>(count, [&](std::int64_t i) {
    const std::int64_t sample = i / channels;
    const std::int64_t from = (sample * rows.rows + rows.of(sample)) * channels + i % channels;
    store_pack(y + i, load_pack<width>(x + from));
  });
}

template <int width, typename T>
__global__ void edge_rows_gradient_kernel(T* dx, const T* dy, std::int64_t count, EdgeRows rows,
                                          std::int64_t channels) {
  for_each_pack<width>(count, [&](std::int64_t i) {
    const std::int64_t sample = i / channels / rows.rows;
    const bool chosen = i / channels % rows.rows == rows.of(sample);
    store_pack(dx + i,
               chosen ? load_pack<width>(dy + sample * channels + i % channels) : Pack<T, width>{});
  });
}

// Calls action(type, width) for tensors of whole packs in rows of `row` values.
template <typename Action>
void with_packs(const Tensor& to, const Tensor& from, std::int64_t row, Action&& action) {
  visit_compute_dtype(to.dtype, [&](auto type) {
    using T = decltype(type);
    const bool fits =
        packs_fit(to.as<T>(), row, pack_width<T>) && packs_fit(from.as<T>(), row, pack_width<T>);
    with_width<T>(fits, [&](auto width) { action(type, width); });
  });
}

Grid grid_of(Stream& stream, std::int64_t count, int width) {
  return grid_for(stream, count / width, threads, threads);
}

}  // namespace

void cut_patches(Stream& stream, const Tensor& y, const Tensor& images, std::int64_t size,
                 std::int64_t before) {
  const Shape& x = images.shape;
  const PatchGrid grid{x[1] / size, x[2] / size, size, before, size * x[3]};
  with_packs(y, images, grid.run, [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, y.count(), w), cut_patches_kernel<w, T>, y.as<T>(),
           images.as<T>(), y.count(), grid);
  });
}

void edge_rows_forward(Stream& stream, const Tensor& y, const Tensor& x, EdgeRow edge,
                       const Tensor& document_starts) {
  const EdgeRows rows(x.shape[1], edge, document_starts);
  with_packs(y, x, x.shape[2], [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, y.count(), w), edge_rows_kernel<w, T>, y.as<T>(), x.as<T>(),
           y.count(), rows, x.shape[2]);
  });
}

void edge_rows_backward(Stream& stream, const Tensor& dx, const Tensor& dy, EdgeRow edge,
                        const Tensor& document_starts) {
  const EdgeRows rows(dx.shape[1], edge, document_starts);
  with_packs(dx, dy, dx.shape[2], [&]<typename T, int w>(T, std::integral_constant<int, w>) {
    launch(stream, grid_of(stream, dx.count(), w), edge_rows_gradient_kernel<w, T>, dx.as<T>(),
           dy.as<T>(), dx.count(), rows, dx.shape[2]);
  });
}

TRIREME_CUDA_PROVIDES(ops, cut_patches, edge_rows_forward, edge_rows_backward);

}  // namespace trireme::ops::cuda
