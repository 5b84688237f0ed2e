// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: sums over the rows of a matrix, in two stages with a fixed order:
// blocks leave partial sums in the stream's scratch, then the last block of some columns, or a
// second kernel, adds those. No sum is atomic; the number of partial sums depends on the shape only.
#pragma once

#include <algorithm>

#include "runtime/ops/common/arrivals_cuda.h"
#include "runtime/ops/common/rows_cuda.h"

namespace trireme::ops::cuda {

// Where `outputs` vectors of column sums are added to.
template <int outputs>
struct ColumnTargets {
  float* to[outputs];
};

inline constexpr int column_groups = 8;  // warps of a block: each takes every eighth row
inline constexpr int column_threads = 32 * column_groups;

// Joins the groups' sums of a block in order; group 0 has the result. `shared` holds
// column_groups * 32 * width floats.
template <int width>
__device__ void join_groups(float (&sums)[width], float* shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int j = 0; j < width; ++j)
    shared[(group * width + j) * 32 + lane] = sums[j];
  __syncthreads();
  if (group == 0) {
#pragma unroll
    for (int j = 0; j < width; ++j) {
      for (int g = 1; g < column_groups; ++g)
        sums[j] += shared[(g * width + j) * 32 + lane];
    }
  }
  __syncthreads();
}

// What column i of partial(chunks, all) adds up to, in group 0; as many columns as lanes at once.
inline __device__ float sum_of_chunks(const float* partial, std::int64_t chunks, std::int64_t all,
                                      std::int64_t i, float* shared) {
  float sum[1] = {};
  if (i < all) {
#pragma unroll 8
    for (std::int64_t chunk = threadIdx.x / 32; chunk < chunks; chunk += column_groups)
      sum[0] += partial[chunk * all + i];
  }
  join_groups(sum, shared);
  return sum[0];
}

// targets += partial(chunks, outputs, columns), which it makes of rows [chunk * chunk_rows, ...).
// Terms adds one row's pack: terms(row, column, sums), sums[output][element of the pack].
// arrivals(tiles) are 0 before and after.
template <int outputs, int width, typename Terms>
__global__ void __launch_bounds__(column_threads)
    column_sums_kernel(ColumnTargets<outputs> targets, float* partial, unsigned* arrivals,
                       Terms terms, std::int64_t rows, std::int64_t columns,
                       std::int64_t chunk_rows, std::int64_t chunks) {
  __shared__ float shared[column_threads * width];
  const std::int64_t tiles = (columns + 32 * width - 1) / (32 * width);
  const std::int64_t chunk = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const std::int64_t column = (tile * 32 + threadIdx.x % 32) * width;
  const std::int64_t first = chunk * chunk_rows;
  const std::int64_t end = first + chunk_rows < rows ? first + chunk_rows : rows;
  float sums[outputs][width] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = first + threadIdx.x / 32; row < end; row += column_groups)
      terms(row, column, sums);
  }
#pragma unroll
  for (int o = 0; o < outputs; ++o) {
    join_groups(sums[o], shared);
    float* const out = partial + (chunk * outputs + o) * columns;
    if (threadIdx.x < 32) {
#pragma unroll
      for (int j = 0; j < width; ++j) {
        if (column + j < columns) out[column + j] = sums[o][j];
      }
    }
  }
  if (!last_to_arrive(arrivals + tile, static_cast<unsigned>(chunks))) return;
#pragma unroll
  for (int o = 0; o < outputs; ++o) {
    for (int j = 0; j < width; ++j) {
      const std::int64_t at = (tile * width + j) * 32 + threadIdx.x % 32;
      const bool inside = at < columns;
      const float sum =
          sum_of_chunks(partial, chunks, outputs * columns,
                        inside ? o * columns + at : outputs * columns, shared);
      if (threadIdx.x < 32 && inside) targets.to[o][at] += sum;
    }
  }
}

// targets[o][column] += sum of partial(chunks, outputs, columns) over its chunks.
template <int outputs>
__global__ void __launch_bounds__(column_threads)
    column_totals_kernel(ColumnTargets<outputs> targets, const float* partial, std::int64_t chunks,
                         std::int64_t columns) {
  __shared__ float shared[column_threads];
  const std::int64_t all = outputs * columns;
  const std::int64_t i = std::int64_t{blockIdx.x} * 32 + threadIdx.x % 32;
  const float sum = sum_of_chunks(partial, chunks, all, i, shared);
  if (threadIdx.x < 32 && i < all) {
    // Compared, not indexed: an index would put the targets into memory of the thread's own.
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
      if (i / columns == o) targets.to[o][i % columns] += sum;
    }
  }
}

template <int outputs>
void add_column_partials(Stream& stream, const ColumnTargets<outputs>& targets,
                         const float* partial, std::int64_t chunks, std::int64_t columns) {
  trireme::cuda::launch(
      stream, {.blocks = trireme::cuda::ceil_div(outputs * columns, 32), .threads = column_threads},
      column_totals_kernel<outputs>, targets, partial, chunks, columns);
}

// targets += sums over the rows of what `terms` makes of them.
template <int outputs, int width, typename Terms>
void add_column_sums(Stream& stream, const ColumnTargets<outputs>& targets, const Terms& terms,
                     std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns == 0) return;
  constexpr std::int64_t min_rows = 32;        // of a block: four a warp
  constexpr std::int64_t wanted_blocks = 528;  // four a multiprocessor of a Hopper GPU
  const std::int64_t tiles = trireme::cuda::ceil_div(columns, 32 * width);
  const std::int64_t max_blocks = std::max<std::int64_t>(1, wanted_blocks / tiles);
  const std::int64_t chunk_rows =
      std::max(min_rows, trireme::cuda::ceil_div(trireme::cuda::ceil_div(rows, max_blocks), 8) * 8);
  const std::int64_t chunks = trireme::cuda::ceil_div(rows, chunk_rows);
  auto* const partial = reinterpret_cast<float*>(CudaStream::of(stream).scratch(
      static_cast<std::size_t>(chunks * outputs * columns) * sizeof(float)));
  trireme::cuda::launch(stream, {.blocks = tiles * chunks, .threads = column_threads},
                        column_sums_kernel<outputs, width, Terms>, targets, partial,
                        CudaStream::of(stream).arrivals(static_cast<std::size_t>(tiles)), terms,
                        rows, columns, chunk_rows, chunks);
}

}  // namespace trireme::ops::cuda
