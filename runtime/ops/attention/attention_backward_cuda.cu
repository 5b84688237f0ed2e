// SPDX-License-Identifier: Apache-2.0
// Two kernels, each of which computes the probabilities anew: blocks of keys gather dK and dV from
// all their queries, blocks of queries gather dQ from all their keys. Nothing is added by two
// blocks, so there are no atomics and the bits are the same in every run.
#include "runtime/ops/attention/attention_kernels_cuda.h"
#include "runtime/ops/attention/attention_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

template <int padded>
inline constexpr int backward_rows = padded == 256 ? 1 : 2;

// Two own tiles, two others, two of weights.
template <int padded>
inline constexpr std::size_t backward_shared = [] {
  constexpr int rows = tile_side * backward_rows<padded>;
  return sizeof(float) * rows * (4 * tile_stride<padded> + 2 * tile_stride<rows>);
}();

// delta(B, H, T) = sum over a head of dout * out. A warp each.
template <typename T>
__global__ void delta_kernel(float* delta, const T* dout, const T* out, AttentionSizes sizes) {
  const std::int64_t item =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;  // (B, T, H)
  if (item >= sizes.batch * sizes.length * sizes.heads) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  float sum = 0.0F;
  for (int d = lane; d < sizes.size; d += warp_size)
    sum += load(dout[item * sizes.size + d]) * load(out[item * sizes.size + d]);
  sum = warp_reduce(sum, Sum{});
  const std::int64_t head = item % sizes.heads, row = item / sizes.heads;
  if (lane == 0) {
    delta[(row / sizes.length * sizes.heads + head) * sizes.length + row % sizes.length] = sum;
  }
}

template <typename T>
struct Backward {
  T* dqkv;
  const T* dout;
  const float* lse;
  const float* delta;
  const T* qkv;
  AttentionSizes sizes;
};

// With p = softmax and ds = p (dout v - delta) scale: keys_own gives dk = ds^T q and dv = p^T dout
// of a tile of keys; else dq = ds k of a tile of queries.
template <int padded, bool keys_own, typename T>
__global__ void __launch_bounds__(tile_threads, 1) attention_backward_kernel(Backward<T> p) {
  constexpr int R = backward_rows<padded>;
  constexpr int rows = tile_side * R;
  constexpr int tile = rows * tile_stride<padded>;
  float* const own = trireme::cuda::dynamic_shared<float>();  // keys, or queries
  float* const own_slopes = own + tile;                       // values, or dout
  float* const other = own_slopes + tile;                     // queries, or keys
  float* const other_slopes = other + tile;                   // dout, or values
  float* const slopes = other_slopes + tile;                  // ds
  float* const weights = slopes + rows * tile_stride<rows>;   // p
  const AttentionSizes& sizes = p.sizes;
  const TileThread at;
  const std::int64_t length = sizes.length;
  const std::int64_t tiles = (length + rows - 1) / rows;
  const std::int64_t index = blockIdx.x / tiles;
  // The tiles with most work first.
  const std::int64_t own_tile = keys_own ? blockIdx.x % tiles : tiles - 1 - blockIdx.x % tiles;
  const std::int64_t first = own_tile * rows;
  const HeadRows<const T> queries = sizes.part(p.qkv, index, 0);
  const HeadRows<const T> keys = sizes.part(p.qkv, index, 1);
  const HeadRows<const T> values = sizes.part(p.qkv, index, 2);
  const HeadRows<const T> gradients = sizes.result(p.dout, index);
  const float* const lse = p.lse + index * length;
  const float* const delta = p.delta + index * length;

  load_tile<rows, padded>(own, keys_own ? keys : queries, first, length, sizes.size);
  load_tile<rows, padded>(own_slopes, keys_own ? values : gradients, first, length, sizes.size);
  HeadSums<R, padded> sums = {};
  HeadSums<R, padded> value_sums = {};
  const std::int64_t begin = keys_own ? own_tile : 0;
  const std::int64_t end = keys_own ? tiles : own_tile + 1;
  for (std::int64_t next = begin; next < end; ++next) {
    const std::int64_t other_first = next * rows;
    __syncthreads();
    load_tile<rows, padded>(other, keys_own ? queries : keys, other_first, length, sizes.size);
    load_tile<rows, padded>(other_slopes, keys_own ? gradients : values, other_first, length,
                            sizes.size);
    __syncthreads();
    float s[R][R], slope[R][R];
    multiply_rows<R, R, padded>(s, own, other, sizes.size);
    multiply_rows<R, R, padded>(slope, own_slopes, other_slopes, sizes.size);
#pragma unroll
    for (int i = 0; i < R; ++i) {
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const int row = at.y * R + i, column = at.x + tile_side * j;
        const std::int64_t query = keys_own ? other_first + column : first + row;
        const std::int64_t key = keys_own ? first + row : other_first + column;
        const bool visible = key <= query && query < length;
        const float weight = visible ? expf(s[i][j] * sizes.scale - lse[query]) : 0.0F;
        slopes[row * tile_stride<rows> + column] =
            visible ? weight * (slope[i][j] - delta[query]) * sizes.scale : 0.0F;
        if constexpr (keys_own) weights[row * tile_stride<rows> + column] = weight;
      }
    }
    __syncthreads();
    add_weighted_rows<R, rows, padded>(sums, slopes, other);
    if constexpr (keys_own) add_weighted_rows<R, rows, padded>(value_sums, weights, other_slopes);
  }

  float one[R];
#pragma unroll
  for (int i = 0; i < R; ++i)
    one[i] = 1.0F;
  store_head_rows<R, padded>(sizes.part(p.dqkv, index, keys_own ? 1 : 0), first, length, sizes.size,
                             sums, one);
  if constexpr (keys_own) {
    store_head_rows<R, padded>(sizes.part(p.dqkv, index, 2), first, length, sizes.size, value_sums,
                               one);
  }
}

}  // namespace

void simt_attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout,
                             const Tensor& out, const Tensor& lse, const Tensor& qkv,
                             std::int64_t heads) {
  if (qkv.count() == 0) return;
  const AttentionSizes sizes = attention_sizes(qkv, heads);
  auto* const delta = reinterpret_cast<float*>(
      CudaStream::of(stream).scratch(static_cast<std::size_t>(lse.count()) * sizeof(float)));
  visit_compute_dtype(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int threads = 256;
    trireme::cuda::launch(
        stream,
        {.blocks = trireme::cuda::ceil_div(lse.count(), threads / warp_size), .threads = threads},
        delta_kernel<T>, delta, dout.as<T>(), out.as<T>(), sizes);
    const Backward<T> backward{dqkv.as<T>(), dout.as<T>(), lse.as<float>(),
                               delta,        qkv.as<T>(),  sizes};
    with_padded_size(sizes.size, [&](auto padded) {
      constexpr int rows = tile_side * backward_rows<padded>;
      const trireme::cuda::Grid grid{
          .blocks = sizes.batch * heads * trireme::cuda::ceil_div(sizes.length, rows),
          .threads = tile_threads,
          .shared_bytes = backward_shared<padded>};
      trireme::cuda::launch(stream, grid, attention_backward_kernel<padded, true, T>, backward);
      trireme::cuda::launch(stream, grid, attention_backward_kernel<padded, false, T>, backward);
    });
  });
}

}  // namespace trireme::ops::cuda
