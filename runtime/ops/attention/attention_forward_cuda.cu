// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/attention/attention_kernels_cuda.h"
#include "runtime/ops/attention/attention_tile_cuda.h"

namespace trireme::ops::cuda {
namespace {

// Rows per thread: as many as fit a block's shared memory on every GPU since Ampere.
template <int padded>
inline constexpr int forward_rows = padded == 256 ? 2 : 4;

// Queries, keys or values, and weights of a tile.
template <int padded>
inline constexpr std::size_t forward_shared = [] {
  constexpr int rows = tile_side * forward_rows<padded>;
  return sizeof(float) * rows * (2 * tile_stride<padded> + tile_stride<rows>);
}();

// One block per tile of a head's queries; loops over tiles of keys with an online softmax. Tiles of
// keys begin at the same positions for all queries of a sequence, so that parts have its bits.
template <int padded, typename T>
__global__ void __launch_bounds__(tile_threads)
    attention_forward_kernel(T* out, float* lse, const T* qkv, const T* keys, const T* values,
                             AttentionSizes sizes) {
  constexpr int R = forward_rows<padded>;
  constexpr int rows = tile_side * R;
  float* const queries = dynamic_shared<float>();
  float* const other = queries + rows * tile_stride<padded>;  // keys, then values
  float* const weights = other + rows * tile_stride<padded>;
  const TileThread at;
  const std::int64_t length = sizes.length;
  const int size = static_cast<int>(sizes.size);
  const std::int64_t tiles = (sizes.queries() + rows - 1) / rows;
  const std::int64_t index = blockIdx.x / tiles;
  const std::int64_t sample = index / sizes.head_count();
  const std::int64_t head = sizes.first_head() + index % sizes.head_count();
  sizes.choose(sample);
  // Most keys first.
  const std::int64_t query = sizes.first + (tiles - 1 - blockIdx.x % tiles) * rows;
  const HeadRows<const T> own_keys = sizes.key_rows(keys, sample, head / sizes.group());
  const HeadRows<const T> own_values = sizes.key_rows(values, sample, head / sizes.group());
  // Scores are compared unscaled, or capped; base 2.
  const float factor = sizes.score_scale * 1.4426950409F;

  load_tile<rows, padded>(queries, sizes.queries(qkv, sample, head), query, length, size);
  HeadSums<R, padded> sums = {};
  float top[R], sum[R];
  const float sink = sizes.sink(head);  // the first key, whose value is zero
#pragma unroll
  for (int i = 0; i < R; ++i) {
    top[i] = sink / sizes.score_scale;
    sum[i] = sink == -INFINITY ? 0.0F : 1.0F;
  }
  const std::int64_t end = sizes.end_of_keys(query + rows - 1);
  for (std::int64_t key = sizes.first_key(query) / rows * rows; key < end; key += rows) {
    __syncthreads();
    load_tile<rows, padded>(other, own_keys, key, length, size);
    __syncthreads();
    float s[R][R];
    multiply_rows<R, R, padded>(s, queries, other, size);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const std::int64_t position = query + at.y * R + i;
      const std::int64_t first_seen = sizes.first_key(position);
      const std::int64_t end_of_seen = sizes.end_of_keys(position);
      float largest = -INFINITY;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const std::int64_t column = key + at.x + tile_side * j;
        const bool visible = column >= first_seen && column < end_of_seen;
        s[i][j] = visible ? capped(s[i][j], sizes) : -INFINITY;
        largest = fmaxf(largest, s[i][j]);
      }
      const float largest_yet =
          fmaxf(top[i], row_threads_reduce(largest, [](float a, float b) { return fmaxf(a, b); }));
      // Before its window or document a row has no keys yet.
      const float new_top = largest_yet == -INFINITY ? 0.0F : largest_yet;
      const float correction = exp2f(factor * (top[i] - new_top));
      top[i] = largest_yet;
      float here = 0.0F;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const float weight = exp2f(factor * (s[i][j] - new_top));
        here += weight;
        weights[(at.y * R + i) * tile_stride<rows> + at.x + tile_side * j] = weight;
      }
      sum[i] = sum[i] * correction + row_threads_reduce(here, Sum{});
#pragma unroll
      for (int c = 0; c < padded / 64; ++c) {
#pragma unroll
        for (int n = 0; n < 4; ++n)
          sums[i][c][n] *= correction;
      }
    }
    __syncthreads();
    load_tile<rows, padded>(other, own_values, key, length, size);
    __syncthreads();
    add_weighted_rows<R, rows, padded>(sums, weights, other);
  }

  float inverse[R];
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const std::int64_t position = query + at.y * R + i;
    inverse[i] = 1.0F / sum[i];
    if (at.x == 0 && position < length)
      lse[sizes.lse_of(sample, head) + position - sizes.first] =
          top[i] * sizes.score_scale + logf(sum[i]);
  }
  store_head_rows<R, padded>(sizes.result(out, sample, head), query, length, size, sums, inverse);
}

__global__ void document_places_kernel(DocumentPlaces places, std::int64_t count,
                                       const std::int32_t* bounds, AttentionSizes sizes) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at <= count) places.fill(at, count, bounds, sizes.heads, sizes.kv_heads, sizes.size);
}

// A warp per row of a head.
template <typename T>
__global__ void join_sinks_kernel(T* out, float* lse, AttentionSizes sizes, bool by_position) {
  const std::int64_t item =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_size;  // (B, queries, heads)
  const std::int64_t queries = sizes.queries(), row = item / sizes.head_count();
  if (row >= sizes.batch * queries) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t head = sizes.first_head() + item % sizes.head_count();
  T* const result = sizes.result(out, row / queries, head).row(sizes.first + row % queries);
  float* const kept = lse + sizes.lse_at(row, head, by_position);
  const float before = *kept, sink = sizes.sink(head);
  const float after = fmaxf(before, sink) + log1pf(expf(-fabsf(before - sink)));
  const float share = expf(before - after);
  for (std::int64_t d = lane; d < sizes.size; d += warp_size)
    store(result[d], load(result[d]) * share);
  __syncwarp();  // all lanes have read it
  if (lane == 0) *kept = after;
}

template <typename T>
void launch_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                    const T* keys, const T* values, const AttentionSizes& sizes) {
  with_padded_size(sizes.size, [&](auto padded) {
    constexpr int rows = tile_side * forward_rows<padded>;
    const std::int64_t tiles = ceil_div(sizes.queries(), rows);
    launch(stream,
           {.blocks = sizes.batch * sizes.head_count() * tiles,
            .threads = tile_threads,
            .shared_bytes = forward_shared<padded>},
           attention_forward_kernel<padded, T>, out.as<T>(), lse.as<float>(), qkv.as<T>(), keys,
           values, sizes);
  });
}

}  // namespace

void join_sinks(Stream& stream, const Tensor& out, const Tensor& lse, const AttentionSizes& sizes,
                bool by_position) {
  constexpr int threads = 256;
  visit_compute_dtype(out.dtype, [&]<typename T>(T) {
    launch(stream,
           {.blocks =
                ceil_div(sizes.batch * sizes.queries() * sizes.head_count(), threads / warp_size),
            .threads = threads},
           join_sinks_kernel<T>, out.as<T>(), lse.as<float>(), sizes, by_position);
  });
}

DocumentPlaces document_places(Stream& stream, const Tensor& bounds, const AttentionSizes& sizes,
                               std::byte* memory) {
  const std::int64_t count = bounds.count() - 1;
  auto* const offsets = reinterpret_cast<std::int64_t*>(memory);
  const DocumentPlaces places{.lengths = reinterpret_cast<std::int32_t*>(offsets + 3 * (count + 1)),
                              .projection = offsets,
                              .out = offsets + (count + 1),
                              .lse = offsets + 2 * (count + 1)};
  constexpr int threads = 256;
  launch(stream, {.blocks = ceil_div(count + 1, threads), .threads = threads},
         document_places_kernel, places, count, bounds.as<std::int32_t>(), sizes);
  return places;
}

void simt_attention_forward(Stream& stream, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                            const AttentionOptions& options) {
  if (qkv.count() == 0) return;
  const AttentionSizes sizes(qkv, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    const T* const from = qkv.as<T>();
    launch_forward<T>(stream, out, lse, qkv, sizes.keys_in(from), sizes.values_in(from), sizes);
  });
}

void simt_attention_part_forward(Stream& stream, const Tensor& out, const Tensor& lse,
                                 const Tensor& qkv, const Tensor& keys, const Tensor& values,
                                 const AttentionPart& part, const AttentionOptions& options) {
  const AttentionSizes sizes(qkv, part, keys.shape, options);
  visit_compute_dtype(qkv.dtype, [&]<typename T>(T) {
    launch_forward<T>(stream, out, lse, qkv, keys.as<T>(), values.as<T>(), sizes);
  });
}

}  // namespace trireme::ops::cuda
