// SPDX-License-Identifier: Apache-2.0
// One warp for the queries or the keys of a row.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/columns_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/norm/projection_norm_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;

struct Item {
  std::int64_t index, row, at, channels;
  int part, lane;
  float inverse = 0;

  // `squares` may be null.
  __device__ Item(const ProjectionRows& rows, const float* squares)
      : index((std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size),
        row(index / 2),
        part(static_cast<int>(index % 2)),
        lane(static_cast<int>(threadIdx.x) % warp_size) {
    if (!inside(rows)) return;
    at = rows.at(row, part);
    channels = rows.channels(part);
    if (squares != nullptr) inverse = rows.inverse(squares, row, part);
  }
  [[nodiscard]] __device__ bool inside(const ProjectionRows& rows) const { return row < rows.rows; }
};

template <typename T>
__global__ void squares_kernel(float* squares, const T* x, ProjectionRows rows) {
  const Item item(rows, nullptr);
  if (!item.inside(rows)) return;
  float sum = 0.0F;
  for (std::int64_t c = item.lane; c < item.channels; c += warp_size)
    sum += load(x[item.at + c]) * load(x[item.at + c]);
  sum = warp_reduce(sum, Sum{});
  if (item.lane == 0) squares[item.index] = sum;
}

template <typename T>
__global__ void forward_kernel(T* y, const T* x, const float* squares, PartScales scales,
                               ProjectionRows rows) {
  const Item item(rows, squares);
  if (!item.inside(rows)) return;
  const float* const scale = scales.at(item.part);
  for (std::int64_t c = item.lane; c < item.channels; c += warp_size)
    store(y[item.at + c], load(x[item.at + c]) * item.inverse * scale[c]);
  if (item.part == 0) return;
  const std::int64_t values = item.at + item.channels;
  for (std::int64_t c = item.lane; c < item.channels; c += warp_size)
    y[values + c] = x[values + c];
}

template <typename T>
__global__ void slopes_kernel(float* slopes, const T* dy, const T* x, const float* squares,
                              PartScales scales, ProjectionRows rows) {
  const Item item(rows, squares);
  if (!item.inside(rows)) return;
  const float* const scale = scales.at(item.part);
  float sum = 0.0F;
  for (std::int64_t c = item.lane; c < item.channels; c += warp_size)
    sum += load(dy[item.at + c]) * scale[c] * (load(x[item.at + c]) * item.inverse);
  sum = warp_reduce(sum, Sum{});
  if (item.lane == 0) slopes[item.index] = sum;
}

// With n = x rstd and g = dy scale: dx = rstd (g - n mean(g n)).
template <typename T>
__global__ void input_kernel(T* dqkv, const T* x, const float* squares, const float* slopes,
                             PartScales scales, ProjectionRows rows) {
  const Item item(rows, squares);
  if (!item.inside(rows)) return;
  const float* const scale = scales.at(item.part);
  const float mean = slopes[item.index] * rows.over(item.part);
  for (std::int64_t c = item.lane; c < item.channels; c += warp_size) {
    T& slope = dqkv[item.at + c];
    store(slope,
          item.inverse * (load(slope) * scale[c] - load(x[item.at + c]) * item.inverse * mean));
  }
}

// One row's part of the gradient of a scale: dy n. From the first element and square of its part.
template <typename T>
struct ScaleTerms {
  const T* dqkv;
  const T* x;
  const float* squares;
  std::int64_t width;
  float over, epsilon;

  ScaleTerms(const Tensor& gradient, const Tensor& input, const Tensor& sums,
             const ProjectionRows& rows, int part)
      : dqkv(gradient.as<T>() + rows.at(0, part)),
        x(input.as<T>() + rows.at(0, part)),
        squares(sums.as<float>() + part),
        width(rows.width),
        over(rows.over(part)),
        epsilon(rows.epsilon) {}

  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[1][1]) const {
    const std::int64_t at = row * width + column;
    const float inverse = 1.0F / sqrtf(squares[2 * row] * over + epsilon);
    sums[0][0] += load(dqkv[at]) * (load(x[at]) * inverse);
  }
};

trireme::cuda::Grid warps(const ProjectionRows& rows) {
  return {.blocks = trireme::cuda::ceil_div(2 * rows.rows, threads / warp_size),
          .threads = threads};
}

}  // namespace

void projection_norm_squares(Stream& stream, const Tensor& squares, const Tensor& x,
                             const ProjectionNormOptions& options) {
  if (x.count() == 0) return;
  const ProjectionRows rows(x, options);
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    trireme::cuda::launch(stream, warps(rows), squares_kernel<T>, squares.as<float>(), x.as<T>(),
                          rows);
  });
}

void projection_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                             const Tensor& squares, const ProjectionScales& scales,
                             const ProjectionNormOptions& options) {
  if (x.count() == 0) return;
  const ProjectionRows rows(x, options);
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    trireme::cuda::launch(stream, warps(rows), forward_kernel<T>, y.as<T>(), x.as<T>(),
                          squares.as<float>(), PartScales(scales), rows);
  });
}

void projection_norm_slopes(Stream& stream, const Tensor& slopes, const Tensor& dy, const Tensor& x,
                            const Tensor& squares, const ProjectionScales& scales,
                            const ProjectionNormOptions& options) {
  if (x.count() == 0) return;
  const ProjectionRows rows(x, options);
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    trireme::cuda::launch(stream, warps(rows), slopes_kernel<T>, slopes.as<float>(), dy.as<T>(),
                          x.as<T>(), squares.as<float>(), PartScales(scales), rows);
  });
}

void projection_norm_backward(Stream& stream, const Tensor& dqkv, const ProjectionScales& gradients,
                              const Tensor& x, const Tensor& squares, const Tensor& slopes,
                              const ProjectionScales& scales,
                              const ProjectionNormOptions& options) {
  if (x.count() == 0) return;
  const ProjectionRows rows(x, options);
  float* const to[2] = {gradients.queries.as<float>(), gradients.keys.as<float>()};
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (int part = 0; part < 2; ++part) {
      add_column_sums<1, 1>(stream, ColumnTargets<1>{{to[part]}},
                            ScaleTerms<T>(dqkv, x, squares, rows, part), rows.rows,
                            rows.channels(part));
    }
    trireme::cuda::launch(stream, warps(rows), input_kernel<T>, dqkv.as<T>(), x.as<T>(),
                          squares.as<float>(), slopes.as<float>(), PartScales(scales), rows);
  });
}

TRIREME_CUDA_PROVIDES(ops, projection_norm_squares);
TRIREME_CUDA_PROVIDES(ops, projection_norm_forward);
TRIREME_CUDA_PROVIDES(ops, projection_norm_slopes);
TRIREME_CUDA_PROVIDES(ops, projection_norm_backward);

}  // namespace trireme::ops::cuda
