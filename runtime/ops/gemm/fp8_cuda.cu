// SPDX-License-Identifier: Apache-2.0
// Matmuls go to cuBLASLt where it takes them, the others to a kernel of our own.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/elementwise/bias.h"
#include "runtime/ops/gemm/cublaslt_cuda.h"
#include "runtime/ops/gemm/fp8.h"
#include "runtime/ops/gemm/fp8_math.h"
#include "runtime/ops/gemm/matmul_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::ceil_div;
using trireme::cuda::Grid;
using trireme::cuda::grid_for;
using trireme::cuda::launch;

// *largest = the largest magnitude_of x; it is 0 before. Of integers, so blocks may come in any
// order.
template <int width, typename T>
__global__ void magnitude_kernel(std::uint32_t* largest, const T* x, std::int64_t count) {
  std::uint32_t mine = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads * width;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
       i < count; i += stride) {
    const auto pack = load_pack<width>(x + i);
#pragma unroll
    for (int j = 0; j < width; ++j)
      mine = Max{}(mine, magnitude_of(load(pack[j])));
  }
  mine = block_reduce<threads>(mine, std::uint32_t{0}, Max{});
  if (threadIdx.x == 0) atomicMax(largest, mine);
}

// The scale for the largest magnitude, which the first thread also writes down.
template <typename Code>
__device__ Fp8Scale scale_for(const std::uint32_t* largest, float* scale) {
  const Fp8Scale factor(*largest, Code::largest);
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = factor.scale;
  return factor;
}

template <int width, typename Code, typename T>
__global__ void quantize_kernel(Code* codes, float* scale, const std::uint32_t* largest, const T* x,
                                std::int64_t count) {
  const Fp8Scale factor = scale_for<Code>(largest, scale);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads * width;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
       i < count; i += stride) {
    const auto pack = load_pack<width>(x + i);
    Pack<Code, width> out;
#pragma unroll
    for (int j = 0; j < width; ++j)
      store(out[j], load(pack[j]) * factor.inverse);
    store_pack(codes + i, out);
  }
}

// codes (columns, rows) of x (rows, columns): one tile a block, read and written along its rows.
template <typename Code, typename T>
__global__ void quantize_transposed_kernel(Code* codes, float* scale, const std::uint32_t* largest,
                                           const T* x, std::int64_t rows, std::int64_t columns) {
  constexpr int pitch = tile + 4;  // the rows of a column lie in different banks
  __shared__ std::uint8_t turned[tile][pitch];
  const Fp8Scale factor = scale_for<Code>(largest, scale);
  const std::int64_t column_tiles = (columns + tile - 1) / tile;
  const std::int64_t row = blockIdx.x / column_tiles * tile;
  const std::int64_t column = blockIdx.x % column_tiles * tile;
  const int first = static_cast<int>(threadIdx.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  for (int r = first; r < tile; r += threads / warp_size) {
    for (int c = lane; c < tile; c += warp_size) {
      if (row + r >= rows || column + c >= columns) continue;
      turned[r][c] = Code(load(x[(row + r) * columns + column + c]) * factor.inverse).bits;
    }
  }
  __syncthreads();
  for (int c = first; c < tile; c += threads / warp_size) {
    for (int r = lane; r < tile; r += warp_size) {
      if (row + r < rows && column + c < columns)
        codes[(column + c) * rows + row + r].bits = turned[r][c];
    }
  }
}

// What linear_fp8 is given: y (m, n) from a (m, k) and b (n, k).
template <typename T, typename A, typename B>
struct Operands {
  T* y;
  const A* a;
  const B* b;
  const float *scale_a, *scale_b, *bias;
  const T* residual;
  std::int64_t m, n, k;
};

template <typename T, typename A, typename B>
__global__ void matmul_kernel(Operands<T, A, B> p) {
  __shared__ Panel rows;
  __shared__ Panel columns;
  const std::int64_t column_tiles = (p.n + tile - 1) / tile;
  const std::int64_t row = blockIdx.x / column_tiles * tile;
  const std::int64_t column = blockIdx.x % column_tiles * tile;
  Sums sums;
  for (std::int64_t first = 0; first < p.k; first += depth) {
    fill_along_terms(rows, [&](int place, int term) {
      const bool inside = row + place < p.m && first + term < p.k;
      return inside ? load(p.a[(row + place) * p.k + first + term]) : 0.0F;
    });
    fill_along_terms(columns, [&](int place, int term) {
      const bool inside = column + place < p.n && first + term < p.k;
      return inside ? load(p.b[(column + place) * p.k + first + term]) : 0.0F;
    });
    __syncthreads();
    sums.add(rows, columns);
    __syncthreads();
  }
  const float scale = *p.scale_a * *p.scale_b;
  sums.give([&](int r, int c, float sum) {
    if (row + r >= p.m || column + c >= p.n) return;
    const std::int64_t at = (row + r) * p.n + column + c;
    float value = sum * scale;
    if (p.bias != nullptr) value += p.bias[column + c];
    if (p.residual != nullptr) value += load(p.residual[at]);
    store(p.y[at], value);
  });
}

void multiply_by_kernel(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                        const Tensor& bias, const Tensor& residual) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    visit_float8(a.codes.dtype, [&](auto type_a) {
      visit_float8(b.codes.dtype, [&](auto type_b) {
        using T = decltype(type);
        using A = decltype(type_a);
        using B = decltype(type_b);
        const Operands<T, A, B> p{.y = y.as<T>(),
                                  .a = a.codes.as<A>(),
                                  .b = b.codes.as<B>(),
                                  .scale_a = a.scale.as<float>(),
                                  .scale_b = b.scale.as<float>(),
                                  .bias = bias.empty() ? nullptr : bias.as<float>(),
                                  .residual = residual.empty() ? nullptr : residual.as<T>(),
                                  .m = a.codes.shape[0],
                                  .n = b.codes.shape[0],
                                  .k = a.codes.shape[1]};
        launch(stream, {.blocks = ceil_div(p.m, tile) * ceil_div(p.n, tile), .threads = threads},
               matmul_kernel<T, A, B>, p);
      });
    });
  });
}

}  // namespace

void quantize_fp8(Stream& stream, const Fp8Matrix& q, const Tensor& x, bool transposed) {
  const std::int64_t rows = x.shape.rows(), columns = x.shape.back(), count = x.count();
  auto* const largest =
      reinterpret_cast<std::uint32_t*>(CudaStream::of(stream).scratch(sizeof(std::uint32_t)));
  stream.device().fill_zero(stream, largest, sizeof(*largest));
  visit_compute_dtype(x.dtype, [&](auto from) {
    visit_float8(q.codes.dtype, [&](auto to) {
      using T = decltype(from);
      using Code = decltype(to);
      const T* const values = x.as<T>();
      Code* const codes = q.codes.as<Code>();
      float* const scale = q.scale.as<float>();
      const bool fits = packs_fit(values, count, pack_width<T>) &&
                        (transposed || packs_fit(codes, count, pack_width<T>));
      with_width<T>(fits, [&](auto width) {
        const Grid grid = grid_for(stream, count, threads * width(), threads);
        launch(stream, grid, magnitude_kernel<width(), T>, largest, values, count);
        if (!transposed) {
          launch(stream, grid, quantize_kernel<width(), Code, T>, codes, scale, largest, values,
                 count);
        }
      });
      if (transposed) {
        launch(stream,
               {.blocks = ceil_div(rows, tile) * ceil_div(columns, tile), .threads = threads},
               quantize_transposed_kernel<Code, T>, codes, scale, largest, values, rows, columns);
      }
    });
  });
}

void linear_fp8(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                const Tensor& bias, const Tensor& residual) {
  if (y.count() == 0) return;
  Gemm gemm{.m = b.codes.shape[0],
            .n = a.codes.shape[0],
            .k = a.codes.shape[1],
            .transpose_a = true,
            .type_a = b.codes.dtype,
            .type_b = a.codes.dtype,
            .output = y.dtype,
            .a = b.codes.data,
            .b = a.codes.data,
            .scale_a = b.scale.as<float>(),
            .scale_b = a.scale.as<float>(),
            .c = residual.data,
            .d = y.data,
            .beta = residual.empty() ? 0.0F : 1.0F};
  if (!multiplies_fp8(stream, gemm)) {
    multiply_by_kernel(stream, y, a, b, bias, residual);
    return;
  }
  // To an f32 result of 8-bit operands the library adds bf16 only.
  const bool bias_follows = !bias.empty() && y.dtype == DType::f32;
  if (!bias.empty() && !bias_follows) {
    gemm.epilogue = Epilogue::bias;
    gemm.bias = epilogue_bias(stream, bias, y.dtype);
  }
  multiply(stream, gemm);
  if (bias_follows) ops::add_bias_residual(stream, y, y, bias);
}

TRIREME_CUDA_PROVIDES(ops, quantize_fp8);
TRIREME_CUDA_PROVIDES(ops, linear_fp8);

}  // namespace trireme::ops::cuda
