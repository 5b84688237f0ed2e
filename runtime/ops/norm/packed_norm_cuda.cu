// SPDX-License-Identifier: Apache-2.0
// One warp per run.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/columns_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/norm/packed_norm_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;

struct Scales : PackedParts<const float> {
  float offset;

  Scales(const PackedScales& scales, const PackedNormOptions& options)
      : PackedParts(scales), offset(options.offset) {}
};

// This warp's run of the first `each` of every row, and this thread's place in it.
struct Item : PackedRun {
  bool inside, is_value;
  int lane;

  __device__ Item(const PackedRows& rows, std::int64_t each)
      : lane(static_cast<int>(threadIdx.x) % warp_size) {
    const std::int64_t item = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;
    const std::int64_t row = item / each;
    inside = row < rows.rows;
    is_value = item % each >= rows.normed();
    static_cast<PackedRun&>(*this) = rows.run(row, item % each);
  }
};

template <typename T>
__device__ float squares_of(const T* in, const Item& item) {
  float sum = 0.0F;
  for (std::int64_t i = item.lane; i < item.length; i += warp_size)
    sum += load(in[i]) * load(in[i]);
  return warp_reduce(sum, Sum{});
}

template <typename T>
__device__ float slopes_of(const T* slope, const T* in, float inverse, const Scales& scales,
                           const Item& item) {
  const float* const scale = scales.at(item.part);
  float sum = 0.0F;
  for (std::int64_t i = item.lane; i < item.length; i += warp_size)
    sum += load(slope[i]) * (scale[i] + scales.offset) * (load(in[i]) * inverse);
  return warp_reduce(sum, Sum{});
}

// Without dy squares.
template <typename T>
__global__ void sums_kernel(float* sums, const T* x, const T* dy, const float* rstd, Scales scales,
                            PackedRows rows) {
  const Item item(rows, rows.normed());
  if (!item.inside) return;
  const float sum = dy == nullptr
                        ? squares_of(x + item.at, item)
                        : slopes_of(dy + item.at, x + item.at, rstd[item.index], scales, item);
  if (item.lane == 0) sums[item.index] = sum;
}

template <typename T>
__global__ void forward_kernel(T* y, float* rstd, const T* x, const float* squares, Scales scales,
                               PackedRows rows) {
  const Item item(rows, rows.normed() + rows.keys);
  if (!item.inside) return;
  const T* const in = x + item.at;
  T* const out = y + item.at;
  if (item.is_value) {
    for (std::int64_t i = item.lane; i < item.length; i += warp_size)
      out[i] = in[i];
    return;
  }
  const float sum = squares == nullptr ? squares_of(in, item) : squares[item.index];
  const float inverse = rows.inverse(sum, item.part);
  const float* const scale = scales.at(item.part);
  for (std::int64_t i = item.lane; i < item.length; i += warp_size)
    store(out[i], load(in[i]) * inverse * (scale[i] + scales.offset));
  if (item.lane == 0) rstd[item.index] = inverse;
}

// With n = x rstd and g = dy scale: dx = rstd (g - n mean(g n)).
template <typename T>
__global__ void input_kernel(T* dqkv, const T* x, const float* rstd, const float* slopes,
                             Scales scales, PackedRows rows) {
  const Item item(rows, rows.normed());
  if (!item.inside) return;
  const T* const in = x + item.at;
  T* const slope = dqkv + item.at;
  const float inverse = rstd[item.index];
  const float mean = rows.mean(
      slopes == nullptr ? slopes_of(slope, in, inverse, scales, item) : slopes[item.index],
      item.part);
  const float* const scale = scales.at(item.part);
  for (std::int64_t i = item.lane; i < item.length; i += warp_size) {
    const float g = load(slope[i]) * (scale[i] + scales.offset);
    store(slope[i], inverse * (g - load(in[i]) * inverse * mean));
  }
}

// One row's part of the gradients of the scales from `first` on: dy n of their runs.
template <typename T, int parts>
struct ScaleTerms {
  const T* dqkv;
  const T* x;
  const float* rstd;
  PackedRows rows;
  int first;

  __device__ void operator()(std::int64_t row, std::int64_t column, float (&sums)[parts][1]) const {
#pragma unroll
    for (int o = 0; o < parts; ++o) {
      const bool keys = first + o == 1;
      const std::int64_t end = keys ? rows.normed() : rows.queries;
      for (std::int64_t r = keys ? rows.queries : 0; r < end; ++r) {
        const PackedRun run = rows.run(row, r);
        const std::int64_t at = run.at + column;
        sums[o][0] += load(dqkv[at]) * (load(x[at]) * rstd[run.index]);
      }
    }
  }
};

Grid warps(std::int64_t items) {
  return {.blocks = ceil_div(items, threads / warp_size), .threads = threads};
}

}  // namespace

void packed_norm_sums(Stream& stream, const Tensor& sums, const Tensor& x,
                      const PackedNormOptions& options, const Tensor& dy, const Tensor& rstd,
                      const PackedScales& scales) {
  if (x.count() == 0) return;
  const PackedRows rows(x, options);
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    launch(stream, warps(rows.rows * rows.normed()), sums_kernel<T>, sums.as<float>(), x.as<T>(),
           dy.empty() ? nullptr : dy.as<T>(), rstd.as<float>(), Scales(scales, options), rows);
  });
}

void packed_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                         const PackedScales& scales, const PackedNormOptions& options,
                         const Tensor& squares) {
  if (x.count() == 0) return;
  const PackedRows rows(x, options);
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    launch(stream, warps(rows.rows * (rows.normed() + rows.keys)), forward_kernel<T>, y.as<T>(),
           rstd.as<float>(), x.as<T>(), squares.as<float>(), Scales(scales, options), rows);
  });
}

void packed_norm_backward(Stream& stream, const Tensor& dqkv, const PackedScales& gradients,
                          const Tensor& x, const Tensor& rstd, const PackedScales& scales,
                          const PackedNormOptions& options, const Tensor& slopes) {
  if (x.count() == 0) return;
  const PackedRows rows(x, options);
  const PackedParts<float> to(gradients);
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    if (rows.query_length == rows.key_length) {
      add_column_sums<2, 1>(stream, ColumnTargets<2>{{to.queries, to.keys}},
                            ScaleTerms<T, 2>{dqkv.as<T>(), x.as<T>(), rstd.as<float>(), rows, 0},
                            rows.rows, rows.query_length);
    } else {
      for (int part = 0; part < 2; ++part) {
        add_column_sums<1, 1>(
            stream, ColumnTargets<1>{{to.at(part)}},
            ScaleTerms<T, 1>{dqkv.as<T>(), x.as<T>(), rstd.as<float>(), rows, part}, rows.rows,
            rows.length(part));
      }
    }
    launch(stream, warps(rows.rows * rows.normed()), input_kernel<T>, dqkv.as<T>(), x.as<T>(),
           rstd.as<float>(), slopes.as<float>(), Scales(scales, options), rows);
  });
}

TRIREME_CUDA_PROVIDES(ops, packed_norm_sums, packed_norm_forward, packed_norm_backward);

}  // namespace trireme::ops::cuda
