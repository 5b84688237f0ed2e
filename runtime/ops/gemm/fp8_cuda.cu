// SPDX-License-Identifier: Apache-2.0
// Uses cuBLASLt if it supports the matmul, else our own kernel.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/magnitude_cuda.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/cublaslt_cuda.h"
#include "runtime/ops/gemm/fp8.h"
#include "runtime/ops/gemm/fp8_blocks_cuda.h"
#include "runtime/ops/gemm/fp8_math.h"
#include "runtime/ops/gemm/matmul_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

// partial(blocks): the largest magnitude_of x per block. Integers, so the order does not matter.
template <int width, typename T>
__global__ void magnitude_kernel(std::uint32_t* partial, const T* x, std::int64_t count) {
  MagnitudesSeen<T> seen;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads * width;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
       i < count; i += stride) {
    seen.see(load_pack<width>(x + i));
  }
  const std::uint32_t mine = block_reduce<threads>(seen.largest(), std::uint32_t{0}, Max{});
  if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

// x, the destination of its codes (either may be null) and the source of its scale: partial
// magnitudes, whose maximum is the tensor's, or with count 0 an existing scale.
template <typename Code, typename T>
struct Encoding {
  Code *codes, *turned;
  float* scale;
  const std::uint32_t* partial;
  int partials;
  const T* x;
  std::int64_t rows, columns;

  // All threads of a block must call. The first one stores the scale.
  [[nodiscard]] __device__ Fp8Scale find_scale() const {
    if (partials == 0) return Fp8Scale(*scale);
    std::uint32_t mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < partials; i += threads)
      mine = Max{}(mine, partial[i]);
    const Fp8Scale factor(block_reduce<threads>(mine, std::uint32_t{0}, Max{}), Code::largest);
    if (blockIdx.x == 0 && threadIdx.x == 0) *scale = factor.scale;
    return factor;
  }
};

template <int width, typename Code, typename T>
__global__ void encode_kernel(Encoding<Code, T> e) {
  const Fp8Scale factor = e.find_scale();
  const std::int64_t count = e.rows * e.columns;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads * width;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
       i < count; i += stride) {
    const auto pack = load_pack<width>(e.x + i);
    Pack<Code, width> out;
#pragma unroll
    for (int j = 0; j < width; ++j)
      store(out[j], load(pack[j]) * factor.inverse);
    store_pack(e.codes + i, out);
  }
}

// Codes of x^T, and of x if wanted: one tile per block, read and written along its rows.
template <int width, typename Code, typename T>
__global__ void encode_turned_kernel(Encoding<Code, T> e) {
  constexpr int pitch = tile + 4;  // puts the rows of a column in different banks
  constexpr int packs = tile / width;
  __shared__ Code turned[tile][pitch];
  const Fp8Scale factor = e.find_scale();
  const std::int64_t column_tiles = (e.columns + tile - 1) / tile;
  const std::int64_t row = blockIdx.x / column_tiles * tile;
  const std::int64_t column = blockIdx.x % column_tiles * tile;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < tile * packs; i += threads) {
    const int r = i / packs, c = i % packs * width;
    if (row + r >= e.rows || column + c >= e.columns) continue;
    const std::int64_t at = (row + r) * e.columns + column + c;
    const auto pack = load_pack<width>(e.x + at);
    Pack<Code, width> out;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      store(out[j], load(pack[j]) * factor.inverse);
      turned[r][c + j] = out[j];
    }
    if (e.codes != nullptr) store_pack(e.codes + at, out);
  }
  __syncthreads();
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < tile * packs; i += threads) {
    const int c = i / packs, r = i % packs * width;
    if (row + r >= e.rows || column + c >= e.columns) continue;
    Pack<Code, width> out;
#pragma unroll
    for (int j = 0; j < width; ++j)
      out[j] = turned[r + j][c];
    store_pack(e.turned + (column + c) * e.rows + row + r, out);
  }
}

// Calls action(encoding, width) with the types of q and x and the width that all of them allow.
template <typename Action>
void visit_encoding(const Fp8Operand& q, const Tensor& x, const Action& action) {
  visit_compute_dtype(x.dtype, [&](auto from) {
    visit_float8(q.any().codes.dtype, [&]<typename Code>(Code) {
      using T = decltype(from);
      const Encoding<Code, T> e{
          .codes = q.straight.codes.empty() ? nullptr : q.straight.codes.as<Code>(),
          .turned = q.turned.codes.empty() ? nullptr : q.turned.codes.as<Code>(),
          .scale = q.any().scale.as<float>(),
          .partial = nullptr,
          .partials = 0,
          .x = x.as<T>(),
          .rows = x.shape.rows(),
          .columns = x.shape.back()};
      // A transposed output is read and written by rows; otherwise all is one row.
      const std::int64_t row = e.turned == nullptr ? x.count() : e.columns;
      const bool fits = packs_fit(e.x, row, pack_width<T>) &&
                        packs_fit(e.codes, 0, pack_width<T>) &&
                        packs_fit(e.turned, e.rows, e.turned == nullptr ? 1 : pack_width<T>);
      with_width<T>(fits, [&](auto width) { action(e, width); });
    });
  });
}

template <int width, typename Code, typename T>
void encode(Stream& stream, const Encoding<Code, T>& e) {
  if (e.turned == nullptr) {
    launch(stream, grid_for(stream, e.rows * e.columns, threads * width, threads),
           encode_kernel<width, Code, T>, e);
  } else {
    launch(stream,
           {.blocks = ceil_div(e.rows, tile) * ceil_div(e.columns, tile), .threads = threads},
           encode_turned_kernel<width, Code, T>, e);
  }
}

void quantize_blocks(Stream& stream, const Fp8Operand& q, const Tensor& x) {
  const std::int64_t rows = x.shape.rows(), columns = x.shape.back();
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const Fp8BlockCodes straight(q.straight, q.any().scaling, rows, columns),
        turned(q.turned, q.any().scaling, columns, rows);
    const bool turns = turned.codes != nullptr;
    const bool fits = packs_fit(x.as<T>(), columns, pack_width<T>) &&
                      packs_fit(straight.codes, 0, pack_width<T>) &&
                      packs_fit(turned.codes, rows, turns ? pack_width<T> : 1);
    with_width<T>(fits, [&](auto width) {
      blocks::encode<decltype(width)::value>(stream, straight, turned, x.as<T>());
    });
  });
}

// The operands of linear_fp8: y (m, n) from a (m, k) and b (n, k).
template <typename T, typename A, typename B>
struct Operands {
  T* y;
  const A* a;
  const B* b;
  const std::byte *scale_a, *scale_b;
  Fp8Blocks blocks_a, blocks_b;
  const float* bias;
  const T* rounded_bias;  // in place of `bias`
  const T* residual;
  std::int64_t m, n, k;
};

// An element, scaled where blocks have their own scales.
template <typename Code>
__device__ float element(const Code* codes, const std::byte* scales, const Fp8Blocks& blocks,
                         std::int64_t row, std::int64_t column) {
  const float code = load(codes[row * blocks.columns + column]);
  return blocks.scaling == Fp8Scaling::tensor ? code : code * blocks.load(scales, row, column);
}

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
      return inside ? element(p.a, p.scale_a, p.blocks_a, row + place, first + term) : 0.0F;
    });
    fill_along_terms(columns, [&](int place, int term) {
      const bool inside = column + place < p.n && first + term < p.k;
      return inside ? element(p.b, p.scale_b, p.blocks_b, column + place, first + term) : 0.0F;
    });
    __syncthreads();
    sums.add(rows, columns);
    __syncthreads();
  }
  const bool whole = p.blocks_a.scaling == Fp8Scaling::tensor;
  const float scale =
      whole ? p.blocks_a.load(p.scale_a, 0, 0) * p.blocks_b.load(p.scale_b, 0, 0) : 1.0F;
  sums.give([&](int r, int c, float sum) {
    if (row + r >= p.m || column + c >= p.n) return;
    const std::int64_t at = (row + r) * p.n + column + c;
    float value = sum * scale;
    if (p.bias != nullptr) value += p.bias[column + c];
    if (p.rounded_bias != nullptr) value += load(p.rounded_bias[column + c]);
    if (p.residual != nullptr) value += load(p.residual[at]);
    store(p.y[at], value);
  });
}

void multiply_by_kernel(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                        const Tensor& bias, const Tensor& residual) {
  visit_compute_dtype(y.dtype, [&](auto type) {
    visit_float8(a.codes.dtype, [&](auto type_a) {
      visit_float8(b.codes.dtype, [&]<typename B>(B) {
        using T = decltype(type);
        using A = decltype(type_a);
        const bool rounded = !bias.empty() && bias.dtype != DType::f32;
        const Operands<T, A, B> p{.y = y.as<T>(),
                                  .a = a.codes.as<A>(),
                                  .b = b.codes.as<B>(),
                                  .scale_a = a.scale.data,
                                  .scale_b = b.scale.data,
                                  .blocks_a = {a.scaling, a.codes.shape[0], a.codes.shape[1]},
                                  .blocks_b = {b.scaling, b.codes.shape[0], b.codes.shape[1]},
                                  .bias = bias.empty() || rounded ? nullptr : bias.as<float>(),
                                  .rounded_bias = rounded ? bias.as<T>() : nullptr,
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

void quantize_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x, const Tensor& amax) {
  if (q.any().scaling != Fp8Scaling::tensor) {
    quantize_blocks(stream, q, x);
    return;
  }
  visit_encoding(q, x, [&]<int w>(auto e, std::integral_constant<int, w>) {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(e.x)>>;
    if (!amax.empty()) {
      e.partial = amax.as<std::uint32_t>();
      e.partials = 1;
      encode<w>(stream, e);
      return;
    }
    // Every block of the second kernel reads all results of the first.
    constexpr std::int64_t most_partials = 2 * threads;
    const std::int64_t count = x.count();
    Grid grid = grid_for(stream, count, threads * w, threads);
    grid.blocks = std::min(grid.blocks, most_partials);
    auto* const partial = reinterpret_cast<std::uint32_t*>(CudaStream::of(stream).scratch(
        static_cast<std::size_t>(grid.blocks) * sizeof(std::uint32_t)));
    launch(stream, grid, magnitude_kernel<w, T>, partial, e.x, count);
    e.partial = partial;
    e.partials = static_cast<int>(grid.blocks);
    encode<w>(stream, e);
  });
}

void encode_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x) {
  visit_encoding(q, x,
                 [&](const auto& e, auto width) { encode<decltype(width)::value>(stream, e); });
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
            .scale_a = b.scale.data,
            .scale_b = a.scale.data,
            .scaling_a = b.scaling,
            .scaling_b = a.scaling,
            .c = residual.data,
            .d = y.data,
            .beta = residual.empty() ? 0.0F : 1.0F};
  if (!multiplies_fp8(stream, gemm)) {
    multiply_by_kernel(stream, y, a, b, bias, residual);
    return;
  }
  // With 8-bit operands and an f32 result the library only adds bf16.
  const bool bias_follows = !bias.empty() && y.dtype == DType::f32;
  if (!bias.empty() && !bias_follows) {
    gemm.epilogue = Epilogue::bias;
    gemm.bias = epilogue_bias(stream, bias, y.dtype);
  }
  multiply(stream, gemm);
  if (bias_follows) ops::add_bias_residual(stream, y, y, bias);
}

TRIREME_CUDA_PROVIDES(ops, quantize_fp8, encode_fp8, linear_fp8);

}  // namespace trireme::ops::cuda
