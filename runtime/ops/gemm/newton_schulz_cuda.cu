// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/gemm/newton_schulz_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;
constexpr int tile = 32;
constexpr int tile_rows = 8;

struct Indices {
  std::int64_t first, stride;
};
__device__ Indices all_indices() {
  return {.first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
          .stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x};
}

// Both directions, `loads` towards y; x (rows, columns), y plain or transposed.
template <bool loads, typename T>
__global__ void copy_kernel(T* y, float* x, std::int64_t count, float factor) {
  for (auto [i, stride] = all_indices(); i < count; i += stride) {
    if constexpr (loads) {
      store(y[i], x[i]);
    } else {
      x[i] = factor * load(y[i]);
    }
  }
}

// One tile per block of threads: both sides are read and written along rows.
template <bool loads, typename T>
__global__ void transpose_kernel(T* y, float* x, std::int64_t rows, std::int64_t columns,
                                 std::int64_t tiles, float factor) {
  __shared__ float values[tile][tile + 1];
  const std::int64_t across = ceil_div(columns, tile);
  const int lane = static_cast<int>(threadIdx.x) % tile;
  const int first = static_cast<int>(threadIdx.x) / tile;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t top = t / across * tile, left = t % across * tile;
    for (int r = first; r < tile; r += tile_rows) {
      if constexpr (loads) {
        if (top + r < rows && left + lane < columns)
          values[r][lane] = x[(top + r) * columns + left + lane];
      } else {
        if (left + r < columns && top + lane < rows)
          values[r][lane] = factor * load(y[(left + r) * rows + top + lane]);
      }
    }
    __syncthreads();
    for (int r = first; r < tile; r += tile_rows) {
      if constexpr (loads) {
        if (left + r < columns && top + lane < rows)
          store(y[(left + r) * rows + top + lane], values[lane][r]);
      } else {
        if (top + r < rows && left + lane < columns)
          x[(top + r) * columns + left + lane] = values[lane][r];
      }
    }
    __syncthreads();
  }
}

template <bool loads>
void move(Stream& stream, const Tensor& y, const Tensor& x, const MatrixBlocks& blocks,
          float factor) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const std::int64_t size = blocks.rows * blocks.columns;
    const std::int64_t tiles = ceil_div(blocks.rows, tile) * ceil_div(blocks.columns, tile);
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      T* const meant = y.as<T>() + b * size;
      float* const stored = x.as<float>() + b * blocks.stride;
      if (blocks.transposed) {
        launch(stream, grid_for(stream, tiles, 1, tile * tile_rows), transpose_kernel<loads, T>,
               meant, stored, blocks.rows, blocks.columns, tiles, factor);
      } else {
        launch(stream, grid_for(stream, size, threads, threads), copy_kernel<loads, T>, meant,
               stored, size, factor);
      }
    }
  });
}

__global__ void trace_kernel(float* scale, const float* gram, std::int64_t side, bool normalize) {
  double trace = 0.0;
  for (std::int64_t i = threadIdx.x; normalize && i < side; i += threads)
    trace += gram[i * (side + 1)];
  trace = block_reduce<threads>(trace, 0.0, Sum{});
  if (threadIdx.x == 0) *scale = normalize ? scale_of_trace(trace) : 1.0F;
}

template <typename T>
__global__ void gram_kernel(T* g, const float* scale, const float* gram, std::int64_t count) {
  const float square = *scale * *scale;
  for (auto [i, stride] = all_indices(); i < count; i += stride)
    store(g[i], square * gram[i]);
}

template <typename T>
__global__ void polynomial_kernel(T* p, const T* g, const T* g2, const float* scale,
                                  std::int64_t side) {
  for (auto [i, stride] = all_indices(); i < side * side; i += stride)
    store(p[i], polynomial(load(g[i]), load(g2[i]), i % (side + 1) == 0, *scale));
}

}  // namespace

void load_matrices(Stream& stream, const Tensor& y, const Tensor& x, const MatrixBlocks& blocks) {
  move<true>(stream, y, x, blocks, 1.0F);
}

void store_matrices(Stream& stream, const Tensor& x, const Tensor& y, const MatrixBlocks& blocks,
                    float factor) {
  move<false>(stream, y, x, blocks, factor);
}

void newton_schulz_gram(Stream& stream, const Tensor& g, const Tensor& scale, const Tensor& gram,
                        bool normalize) {
  launch(stream, {.blocks = 1, .threads = threads}, trace_kernel, scale.as<float>(),
         gram.as<float>(), gram.shape[0], normalize);
  visit_compute_dtype(g.dtype, [&]<typename T>(T) {
    launch(stream, grid_for(stream, gram.count(), threads, threads), gram_kernel<T>, g.as<T>(),
           scale.as<float>(), gram.as<float>(), gram.count());
  });
}

void newton_schulz_polynomial(Stream& stream, const Tensor& p, const Tensor& g, const Tensor& g2,
                              const Tensor& scale) {
  visit_compute_dtype(p.dtype, [&]<typename T>(T) {
    launch(stream, grid_for(stream, p.count(), threads, threads), polynomial_kernel<T>, p.as<T>(),
           g.as<T>(), g2.as<T>(), scale.as<float>(), p.shape[0]);
  });
}

TRIREME_CUDA_PROVIDES(ops, load_matrices, store_matrices, newton_schulz_gram,
                      newton_schulz_polynomial);

}  // namespace trireme::ops::cuda
