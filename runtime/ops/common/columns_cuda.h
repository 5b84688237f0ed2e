// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: column sums of a matrix in two fixed-order stages of one kernel:
// blocks write partial sums to the stream's scratch, and the last block adds them. No atomics; the
// number of partial sums depends only on the shape.
#pragma once

#include <algorithm>

#include "runtime/ops/common/arrivals_cuda.h"
#include "runtime/ops/common/rows_cuda.h"

namespace trireme::ops::cuda {

// Destinations of `outputs` vectors of column sums, which are accumulated.
template <int outputs>
struct ColumnTargets {
  float* to[outputs];
};

inline constexpr int column_groups = 8;  // warps per block: each takes every eighth row
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

template <int width>
__device__ void add_pack(Pack<float, width>& to, const Pack<float, width>& pack) {
#pragma unroll
  for (int j = 0; j < width; ++j)
    to[j] += pack[j];
}

// targets += sums over the rows of `terms`: terms(row, column, sums) adds one row's pack to
// sums[output][element of the pack]. Blocks of the same columns write their sums to partial(chunks,
// outputs, tiles * 32 * width), and the last of them adds those.
template <int outputs, int width, typename Terms>
__global__ void __launch_bounds__(column_threads)
    column_sums_kernel(ColumnTargets<outputs> targets, float* partial, unsigned* arrivals,
                       Terms terms, std::int64_t rows, std::int64_t columns,
                       std::int64_t chunk_rows, std::int64_t chunks) {
  __shared__ float shared[column_threads * width];
  const std::int64_t tiles = (columns + 32 * width - 1) / (32 * width);
  const std::int64_t chunk = blockIdx.x / tiles;
  const std::int64_t tile = blockIdx.x % tiles;
  const std::int64_t column = (tile * 32 + threadIdx.x % 32) * width;
  const std::int64_t stride = tiles * 32 * width;
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
    if (threadIdx.x < 32) {
      Pack<float, width> pack;
#pragma unroll
      for (int j = 0; j < width; ++j)
        pack[j] = sums[o][j];
      store_pack(partial + (chunk * outputs + o) * stride + column, pack);
    }
  }

  if (!last_to_arrive(arrivals + tile, static_cast<unsigned>(chunks))) return;
#pragma unroll
  for (int o = 0; o < outputs; ++o) {
    Pack<float, width> total{};
#pragma unroll 4
    for (std::int64_t from = threadIdx.x / 32; from < chunks; from += column_groups)
      add_pack(total, load_pack<width>(partial + (from * outputs + o) * stride + column));
    join_groups(total.values, shared);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (threadIdx.x < 32 && column + j < columns) targets.to[o][column + j] += total[j];
    }
  }
}

template <int outputs, int width, typename Terms>
void add_column_sums(Stream& stream, const ColumnTargets<outputs>& targets, const Terms& terms,
                     std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns == 0) return;
  constexpr std::int64_t min_rows = 32;        // per block: four per warp
  constexpr std::int64_t wanted_blocks = 528;  // four per multiprocessor of a Hopper GPU
  const std::int64_t tiles = ceil_div(columns, 32 * width);
  const std::int64_t max_blocks = std::max<std::int64_t>(1, wanted_blocks / tiles);
  const std::int64_t chunk_rows = std::max(min_rows, ceil_div(ceil_div(rows, max_blocks), 8) * 8);
  const std::int64_t chunks = ceil_div(rows, chunk_rows);
  CudaStream& cuda = CudaStream::of(stream);
  auto* const partial = reinterpret_cast<float*>(cuda.scratch(
      static_cast<std::size_t>(chunks * outputs * tiles * 32 * width) * sizeof(float)));
  launch(stream, {.blocks = tiles * chunks, .threads = column_threads},
         column_sums_kernel<outputs, width, Terms>, targets, partial,
         cuda.arrivals(static_cast<std::size_t>(tiles)), terms, rows, columns, chunk_rows, chunks);
}

// Destination for a kernel whose blocks all have sums for all columns; its last blocks add them
// (add_block_sums).
template <int outputs>
struct BlockSums {
  ColumnTargets<outputs> targets;
  float* partial;      // (blocks + column_groups, outputs, stride); null: not wanted
  unsigned* arrivals;  // column_groups + 1
  std::int64_t columns;
  std::int64_t stride;  // columns, rounded up to whole packs

  [[nodiscard]] __device__ float* row(std::int64_t block, int output) const {
    return partial + (block * outputs + output) * stride;
  }
};

template <int outputs>
[[nodiscard]] BlockSums<outputs> room_for_block_sums(Stream& stream,
                                                     const ColumnTargets<outputs>& targets,
                                                     std::int64_t blocks, std::int64_t columns,
                                                     int width) {
  CudaStream& cuda = CudaStream::of(stream);
  const std::int64_t stride = ceil_div(columns, width) * width;
  auto* const partial = reinterpret_cast<float*>(cuda.scratch(
      static_cast<std::size_t>((blocks + column_groups) * outputs * stride) * sizeof(float)));
  return {targets, partial, cuda.arrivals(column_groups + 1), columns, stride};
}

// targets += the sums that all blocks have written. The last block of every eighth block's group
// adds that group (one block alone would read megabytes); the last of these adds the groups.
template <int outputs>
__device__ void add_block_sums(const BlockSums<outputs>& sums) {
  constexpr int width = pack_width<float>;
  const std::int64_t all = outputs * sums.stride;
  const std::int64_t blocks = gridDim.x;
  const std::int64_t groups = blocks < column_groups ? blocks : column_groups;
  const std::int64_t group = blockIdx.x % column_groups;
  const auto members = static_cast<unsigned>((blocks - group + column_groups - 1) / column_groups);
  if (!last_to_arrive(sums.arrivals + group, members)) return;
  const std::int64_t first = std::int64_t{threadIdx.x} * width;
  const std::int64_t step = std::int64_t{blockDim.x} * width;
  float* const grouped = sums.partial + blocks * all;
  for (std::int64_t i = first; i < all; i += step) {
    Pack<float, width> total{};
#pragma unroll 8
    for (std::int64_t block = group; block < blocks; block += column_groups)
      add_pack(total, load_pack<width>(sums.partial + block * all + i));
    store_pack(grouped + group * all + i, total);
  }
  if (!last_to_arrive(sums.arrivals + column_groups, static_cast<unsigned>(groups))) return;
  for (std::int64_t i = first; i < all; i += step) {
    auto total = load_pack<width>(grouped + i);
    for (std::int64_t from = 1; from < groups; ++from)
      add_pack(total, load_pack<width>(grouped + from * all + i));
      // By comparison: indexing would move the targets to local memory.
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
      const std::int64_t column = i - o * sums.stride;
#pragma unroll
      for (int j = 0; j < width; ++j) {
        if (column >= 0 && column + j < sums.columns) sums.targets.to[o][column + j] += total[j];
      }
    }
  }
}

}  // namespace trireme::ops::cuda
