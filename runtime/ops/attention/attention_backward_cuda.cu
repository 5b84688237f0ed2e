// SPDX-License-Identifier: Apache-2.0
// Two kernels that both recompute the probabilities: blocks of keys gather dK and dV from all their
// queries, blocks of queries gather dQ from all their keys. No two blocks add to the same value, so
// there are no atomics and the bits are equal in every run.
#include "runtime/ops/attention/attention_kernels_cuda.h"
#include "runtime/ops/attention/attention_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

constexpr int sink_threads = 256;

template <int padded>
inline constexpr int backward_rows = padded == 256 ? 1 : 2;

// Two tiles of this block, two others, two of weights.
template <int padded>
inline constexpr std::size_t backward_shared = [] {
  constexpr int rows = tile_side * backward_rows<padded>;
  return sizeof(float) * rows * (4 * tile_stride<padded> + 2 * tile_stride<rows>);
}();

// delta, indexed as lse, = sum over a head of dout * out. A warp each.
template <typename T>
__global__ void delta_kernel(float* delta, const T* dout, const T* out, AttentionSizes sizes) {
  const std::int64_t item =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;  // (B, queries, heads)
  const std::int64_t queries = sizes.queries(), row = item / sizes.head_count();
  if (row >= sizes.batch * queries) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t head = sizes.first_head() + item % sizes.head_count();
  const std::int64_t position = sizes.first + row % queries;
  const T* const slopes = sizes.result(dout, row / queries, head).row(position);
  const T* const results = sizes.result(out, row / queries, head).row(position);
  float sum = 0.0F;
  for (std::int64_t d = lane; d < sizes.size; d += warp_size)
    sum += load(slopes[d]) * load(results[d]);
  sum = warp_reduce(sum, Sum{});
  if (lane == 0) delta[sizes.lse_at(row, head)] = sum;
}

// dsinks(H) -= sum over (B, queries) of a sink's weight times delta. One block per head.
__global__ void __launch_bounds__(sink_threads)
    sinks_kernel(float* dsinks, const float* lse, const float* delta, AttentionSizes sizes,
                 bool by_position) {
  const std::int64_t head = sizes.first_head() + blockIdx.x, rows = sizes.batch * sizes.queries();
  float sum = 0.0F;
  for (std::int64_t row = threadIdx.x; row < rows; row += sink_threads) {
    sum += expf(sizes.sink(head) - lse[sizes.lse_at(row, head, by_position)]) *
           delta[sizes.lse_at(row, head)];
  }
  sum = block_reduce<sink_threads>(sum, 0.0F, Sum{});
  if (threadIdx.x == 0) dsinks[head] -= sum;
}

template <typename T>
struct Backward {
  T* dqkv;
  const T* dout;
  const float* lse;
  const float* delta;
  const T* qkv;
  const T* keys;
  const T* values;
  T* dkeys;  // overwritten; null: the sums are added to
  T* dvalues;
  float* key_sums;
  float* value_sums;
  AttentionSizes sizes;
};

// A tile's ds and, for tiles of keys, p, from the products of queries and keys and of dout and
// values. lse and delta: from the first query on.
template <int R, int rows, bool keys_own>
__device__ void weigh(float* slopes, float* weights, const float (&s)[R][R],
                      const float (&slope)[R][R], const float* lse, const float* delta,
                      std::int64_t first, std::int64_t other_first, const AttentionSizes& sizes) {
  const TileThread at;
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < R; ++j) {
      const int row = at.y * R + i, column = at.x + tile_side * j;
      const std::int64_t query = keys_own ? other_first + column : first + row;
      const std::int64_t key = keys_own ? first + row : other_first + column;
      const bool visible =
          query < sizes.length && key >= sizes.first_key(query) && key < sizes.end_of_keys(query);
      const float score = capped(s[i][j], sizes);
      const std::int64_t at_query = query - sizes.first;
      const float weight = visible ? expf(score * sizes.score_scale - lse[at_query]) : 0.0F;
      slopes[row * tile_stride<rows> + column] =
          visible ? weight * (slope[i][j] - delta[at_query]) * score_slope(score, sizes) : 0.0F;
      if constexpr (keys_own) weights[row * tile_stride<rows> + column] = weight;
    }
  }
}

// With p = softmax and ds = p (dout v - delta) scale, times the slope of a soft cap: keys_own gives
// dk = ds^T q and dv = p^T dout of a tile of keys, from all heads of its group; else dq = ds k of a
// tile of queries.
template <int padded, bool keys_own, typename T>
__global__ void __launch_bounds__(tile_threads, 1) attention_backward_kernel(Backward<T> p) {
  constexpr int R = backward_rows<padded>;
  constexpr int rows = tile_side * R;
  constexpr int tile = rows * tile_stride<padded>;
  float* const own = dynamic_shared<float>();                // keys, or queries
  float* const own_slopes = own + tile;                      // values, or dout
  float* const other = own_slopes + tile;                    // queries, or keys
  float* const other_slopes = other + tile;                  // dout, or values
  float* const slopes = other_slopes + tile;                 // ds
  float* const weights = slopes + rows * tile_stride<rows>;  // p
  AttentionSizes sizes = p.sizes;
  const TileThread at;
  const std::int64_t length = sizes.length;
  const int size = static_cast<int>(sizes.size);
  const std::int64_t tiles = ((keys_own ? length : sizes.queries()) + rows - 1) / rows;
  const std::int64_t own_heads = keys_own ? sizes.key_heads : sizes.head_count();
  const std::int64_t sample = blockIdx.x / tiles / own_heads;
  sizes.choose(sample);
  const std::int64_t own_head =
      (keys_own ? sizes.key_head : sizes.first_head()) + blockIdx.x / tiles % own_heads;
  const std::int64_t key_head = keys_own ? own_head : own_head / sizes.group();
  // Tiles with the most work first.
  const std::int64_t own_tile = keys_own ? blockIdx.x % tiles : tiles - 1 - blockIdx.x % tiles;
  const std::int64_t first = (keys_own ? 0 : sizes.first) + own_tile * rows;
  const HeadRows<const T> keys = sizes.key_rows(p.keys, sample, key_head);
  const HeadRows<const T> values = sizes.key_rows(p.values, sample, key_head);
  HeadSums<R, padded> sums = {};
  HeadSums<R, padded> value_sums = {};
  const std::int64_t begin =
      keys_own ? sizes.first + (sizes.first_query(first) - sizes.first) / rows * rows
               : sizes.first_key(first) / rows * rows;
  const std::int64_t last = first + rows - 1;
  const std::int64_t end = keys_own ? sizes.end_of_queries(last) : sizes.end_of_keys(last);
  if (begin >= end) return;  // no query attends to these keys
  const std::int64_t members = keys_own ? sizes.group() : 1;
  for (std::int64_t member = 0; member < members; ++member) {
    const std::int64_t head = keys_own ? key_head * members + member : own_head;
    const HeadRows<const T> queries = sizes.queries(p.qkv, sample, head);
    const HeadRows<const T> gradients = sizes.result(p.dout, sample, head);
    const float* const lse = p.lse + sizes.lse_of(sample, head);
    const float* const delta = p.delta + sizes.lse_of(sample, head);
    if (member == 0) {
      load_tile<rows, padded>(own, keys_own ? keys : queries, first, length, size);
      load_tile<rows, padded>(own_slopes, keys_own ? values : gradients, first, length, size);
    }
    for (std::int64_t other_first = begin; other_first < end; other_first += rows) {
      __syncthreads();
      load_tile<rows, padded>(other, keys_own ? queries : keys, other_first, length, size);
      load_tile<rows, padded>(other_slopes, keys_own ? gradients : values, other_first, length,
                              size);
      __syncthreads();
      float s[R][R], slope[R][R];
      multiply_rows<R, R, padded>(s, own, other, size);
      multiply_rows<R, R, padded>(slope, own_slopes, other_slopes, size);
      weigh<R, rows, keys_own>(slopes, weights, s, slope, lse, delta, first, other_first, sizes);
      __syncthreads();
      add_weighted_rows<R, rows, padded>(sums, slopes, other);
      if constexpr (keys_own) add_weighted_rows<R, rows, padded>(value_sums, weights, other_slopes);
    }
  }

  float one[R];
#pragma unroll
  for (int i = 0; i < R; ++i)
    one[i] = 1.0F;
  if constexpr (!keys_own) {
    store_head_rows<R, padded>(sizes.queries(p.dqkv, sample, own_head), first, length, size, sums,
                               one);
  } else if (p.dkeys == nullptr) {
    store_head_rows<R, padded, true>(sizes.key_rows(p.key_sums, sample, key_head), first, length,
                                     size, sums, one);
    store_head_rows<R, padded, true>(sizes.key_rows(p.value_sums, sample, key_head), first, length,
                                     size, value_sums, one);
  } else {
    store_head_rows<R, padded>(sizes.key_rows(p.dkeys, sample, key_head), first, length, size, sums,
                               one);
    store_head_rows<R, padded>(sizes.key_rows(p.dvalues, sample, key_head), first, length, size,
                               value_sums, one);
  }
}

// In the stream's scratch, indexed as lse.
float* launch_delta(Stream& stream, const Tensor& dout, const Tensor& out,
                    const AttentionSizes& sizes) {
  constexpr int threads = 256;
  const std::int64_t count = sizes.batch * sizes.queries() * sizes.head_count();
  auto* const delta = reinterpret_cast<float*>(CudaStream::of(stream).scratch(
      static_cast<std::size_t>(sizes.batch * sizes.heads * sizes.rows) * sizeof(float)));
  visit_compute_dtype(dout.dtype, [&]<typename T>(T) {
    launch(stream, {.blocks = ceil_div(count, threads / warp_size), .threads = threads},
           delta_kernel<T>, delta, dout.as<T>(), out.as<T>(), sizes);
  });
  return delta;
}

void launch_sinks(Stream& stream, const Tensor& dsinks, const Tensor& lse, const float* delta,
                  const AttentionSizes& sizes, bool by_position) {
  launch(stream, {.blocks = sizes.head_count(), .threads = sink_threads}, sinks_kernel,
         dsinks.as<float>(), lse.as<float>(), delta, sizes, by_position);
}

// `backward` lacks delta.
template <typename T>
void launch_backward(Stream& stream, Backward<T> backward, const Tensor& dout, const Tensor& out,
                     const Tensor& lse, const Tensor& dsinks) {
  const AttentionSizes& sizes = backward.sizes;
  backward.delta = launch_delta(stream, dout, out, sizes);
  if (!dsinks.empty())
    launch_sinks(stream, dsinks, lse, backward.delta, sizes, /*by_position=*/false);
  with_padded_size(sizes.size, [&](auto padded) {
    constexpr int rows = tile_side * backward_rows<padded>;
    const auto grid = [&](std::int64_t heads, std::int64_t positions) {
      return Grid{.blocks = sizes.batch * heads * ceil_div(positions, rows),
                  .threads = tile_threads,
                  .shared_bytes = backward_shared<padded>};
    };
    launch(stream, grid(sizes.key_heads, sizes.length), attention_backward_kernel<padded, true, T>,
           backward);
    launch(stream, grid(sizes.head_count(), sizes.queries()),
           attention_backward_kernel<padded, false, T>, backward);
  });
}

}  // namespace

void add_sink_gradients(Stream& stream, const Tensor& dsinks, const Tensor& dout, const Tensor& out,
                        const Tensor& lse, const AttentionSizes& sizes, bool by_position) {
  launch_sinks(stream, dsinks, lse, launch_delta(stream, dout, out, sizes), sizes, by_position);
}

void simt_attention_backward(Stream& stream, const Tensor& dqkv, const Tensor& dout,
                             const Tensor& out, const Tensor& lse, const Tensor& qkv,
                             const AttentionOptions& options, const Tensor& dsinks) {
  if (qkv.count() == 0) return;
  const AttentionSizes sizes(qkv, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const T* const from = qkv.as<T>();
    T* const to = dqkv.as<T>();
    launch_backward<T>(
        stream,
        {to, dout.as<T>(), lse.as<float>(), /*delta=*/nullptr, from, sizes.keys_in(from),
         sizes.values_in(from), sizes.keys_in(to), sizes.values_in(to), /*key_sums=*/nullptr,
         /*value_sums=*/nullptr, sizes},
        dout, out, lse, dsinks);
  });
}

void simt_attention_part_backward(Stream& stream, const Tensor& dqkv, const Tensor& dkeys,
                                  const Tensor& dvalues, const Tensor& dout, const Tensor& out,
                                  const Tensor& lse, const Tensor& qkv, const Tensor& keys,
                                  const Tensor& values, const AttentionPart& part,
                                  const AttentionOptions& options, const Tensor& dsinks) {
  const AttentionSizes sizes(qkv, part, keys.shape, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    launch_backward<T>(stream,
                       {dqkv.as<T>(), dout.as<T>(), lse.as<float>(), /*delta=*/nullptr, qkv.as<T>(),
                        keys.as<T>(), values.as<T>(), /*dkeys=*/nullptr, /*dvalues=*/nullptr,
                        dkeys.as<float>(), dvalues.as<float>(), sizes},
                       dout, out, lse, dsinks);
  });
}

}  // namespace trireme::ops::cuda
