// SPDX-License-Identifier: Apache-2.0
// Private to fp8_cuda.cu: codes with a scale per block, straight and turned, from one reading of x.
// A thread block encodes a square of 128 x 128, which whole blocks of every scaling fill.
#pragma once

#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/pack_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/gemm/fp8_math.h"

namespace trireme::ops::cuda::blocks {

constexpr int threads = 256;
constexpr int side = static_cast<int>(Fp8Blocks::side);
constexpr int wide = 8;             // neighbours that a thread encodes
constexpr int lanes = side / wide;  // threads along a row
template <typename T>
constexpr int pitch = side + 4 / static_cast<int>(sizeof(T));  // puts a column in different banks

// The square from (row, column) on, with elements at(r, c), which are zero outside of the matrix;
// `largest` of all of them counts for blocks of 128 x 128.
template <Fp8Scaling scaling, int width, typename At>
__device__ void encode_square(const Fp8BlockCodes& to, std::int64_t row, std::int64_t column,
                              std::uint32_t largest_of_all, const At& at) {
  constexpr int block_lanes = (scaling == Fp8Scaling::row_32 ? 32 : side) / wide;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (int r = static_cast<int>(threadIdx.x) / lanes; r < side; r += threads / lanes) {
    float values[wide];
    std::uint32_t largest = largest_of_all;
#pragma unroll
    for (int j = 0; j < wide; ++j) {
      values[j] = at(r, lane * wide + j);
      largest = Max{}(largest, magnitude_of(values[j]));
    }
#pragma unroll
    for (int reach = block_lanes / 2; reach > 0; reach /= 2)
      largest = Max{}(largest, __shfl_xor_sync(whole_warp, largest, reach));
    const Fp8Scale factor(largest, f8e4m3::largest);
    const std::int64_t y = row + r, x = column + lane * wide;
    const bool inside = y < to.blocks.rows && x < to.blocks.columns;
    const bool stores = scaling != Fp8Scaling::square_128 || r == 0;
    if (lane % block_lanes == 0 && stores && (inside || scaling == Fp8Scaling::row_32))
      to.blocks.store(to.scales, y, x, inside ? factor.scale : 0.0F);  // E8M0 pads squares with 0
    if (!inside) continue;
#pragma unroll
    for (int j = 0; j < wide; j += width) {
      Pack<f8e4m3, width> out;
#pragma unroll
      for (int i = 0; i < width; ++i)
        store(out[i], values[j + i] * factor.inverse);
      if (x + j < to.blocks.columns) store_pack(to.codes + y * to.blocks.columns + x + j, out);
    }
  }
}

template <Fp8Scaling scaling, int width, typename T>
__global__ void encode_kernel(Fp8BlockCodes straight, Fp8BlockCodes turned, const T* x) {
  const std::int64_t rows = straight.blocks.rows, columns = straight.blocks.columns;
  const std::int64_t across = (columns + side - 1) / side;
  const std::int64_t row = blockIdx.x / across * side, column = blockIdx.x % across * side;
  T* const square = dynamic_shared<T>();
  std::uint32_t largest = 0;
  constexpr int packs = side / width;
  for (int i = static_cast<int>(threadIdx.x); i < side * packs; i += threads) {
    const int r = i / packs, c = i % packs * width;
    const bool inside = row + r < rows && column + c < columns;
    const auto pack =
        inside ? load_pack<width>(x + (row + r) * columns + column + c) : Pack<T, width>{};
#pragma unroll
    for (int j = 0; j < width; ++j) {
      square[r * pitch<T> + c + j] = pack[j];
      if constexpr (scaling == Fp8Scaling::square_128)
        largest = Max{}(largest, magnitude_of(load(pack[j])));
    }
  }
  largest = block_reduce<threads>(largest, std::uint32_t{0}, Max{});  // and a barrier
  if (straight.codes != nullptr)
    encode_square<scaling, width>(straight, row, column, largest,
                                  [&](int r, int c) { return load(square[r * pitch<T> + c]); });
  if (turned.codes != nullptr)
    encode_square<scaling, width>(turned, column, row, largest,
                                  [&](int r, int c) { return load(square[c * pitch<T> + r]); });
}

template <int width, typename T>
void encode(Stream& stream, const Fp8BlockCodes& straight, const Fp8BlockCodes& turned,
            const T* x) {
  const Fp8Blocks& all = straight.blocks;
  const Grid grid{.blocks = ceil_div(all.rows, side) * ceil_div(all.columns, side),
                  .threads = threads,
                  .shared_bytes = static_cast<std::size_t>(side) * pitch<T> * sizeof(T)};
  launch(stream, grid,
         all.scaling == Fp8Scaling::row_128      ? encode_kernel<Fp8Scaling::row_128, width, T>
         : all.scaling == Fp8Scaling::square_128 ? encode_kernel<Fp8Scaling::square_128, width, T>
                                                 : encode_kernel<Fp8Scaling::row_32, width, T>,
         straight, turned, x);
}

}  // namespace trireme::ops::cuda::blocks
