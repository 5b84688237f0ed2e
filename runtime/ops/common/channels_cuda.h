// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: per-channel sums over the rows of an (M, C) matrix, or of each of
// some samples (N, M, C), in two stages. A block takes a slice of the rows for some adjacent packs
// of channels; its lanes take every lanes-th row and are joined as a tree; a second kernel joins
// the slices. Slices, and so the bits, depend only on the shape.
#pragma once

#include <bit>

#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/pack_cuda.h"

namespace trireme::ops::cuda {

inline constexpr int channel_threads = 256;

struct ChannelTiles {
  // Blocks that keep 132 multiprocessors busy: for sums, which use many registers, and for
  // element-wise passes.
  static constexpr std::int64_t sum_blocks = 2 * 132;
  static constexpr std::int64_t map_blocks = 8 * 132;

  std::int64_t rows, channels, samples;
  int packs;                                   // adjacent in a block, a power of two
  std::int64_t tiles, slices, rows_per_slice;  // of a sample

  // rows_: of each sample.
  ChannelTiles(std::int64_t rows_, std::int64_t channels_, int width, std::int64_t blocks,
               std::int64_t samples_ = 1)
      : rows(rows_), channels(channels_), samples(samples_) {
    constexpr std::int64_t widest = 32, fewest_rows = 8;  // of a lane
    const std::int64_t all = channels / width;
    packs = static_cast<int>(std::min(
        widest, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(all)))));
    tiles = ceil_div(all, packs);
    const std::int64_t max_blocks = ceil_div(rows, fewest_rows * (channel_threads / packs));
    const std::int64_t wanted =
        std::clamp<std::int64_t>(ceil_div(blocks, tiles * samples), 1, max_blocks);
    rows_per_slice = ceil_div(rows, wanted);
    slices = ceil_div(rows, rows_per_slice);
  }
  [[nodiscard]] Grid grid() const {
    return {.blocks = samples * tiles * slices, .threads = channel_threads};
  }
  [[nodiscard]] __device__ double rows_of(std::int64_t slice) const {
    return static_cast<double>(std::min(rows_per_slice, rows - slice * rows_per_slice));
  }
};

// The work of a thread in such a block: rows begin, begin + step, ... < end of the pack of channels
// from `channel` on, counted over all samples, as are slices. Threads beyond the last channel have
// no rows.
struct ChannelPlace {
  int lane, step;
  std::int64_t slice, sample, channel, begin, end;
  bool inside;

  __device__ ChannelPlace(const ChannelTiles& tiles, int width)
      : lane(static_cast<int>(threadIdx.x) / tiles.packs),
        step(channel_threads / tiles.packs),
        slice(blockIdx.x / tiles.tiles),
        sample(slice / tiles.slices),
        channel((blockIdx.x % tiles.tiles * tiles.packs + threadIdx.x % tiles.packs) * width),
        inside(channel < tiles.channels) {
    const std::int64_t first = (slice - sample * tiles.slices) * tiles.rows_per_slice;
    begin = sample * tiles.rows + first + lane;
    end = sample * tiles.rows + std::min(first + tiles.rows_per_slice, tiles.rows);
    if (!inside) end = begin;
  }
};

// Joins the values of threads with equal index modulo `packs`; the first `packs` threads get the
// results. `count` values were joined in a thread's `own`: Join(count, others)(own, other) adds
// others.
template <typename Join, int width, typename Value>
__device__ void join_lanes(Value (&own)[width], double count, int packs) {
  __shared__ Value values[width][channel_threads];
  __shared__ double counts[channel_threads];
  const int thread = static_cast<int>(threadIdx.x);
  counts[thread] = count;
  for (int k = 0; k < width; ++k)
    values[k][thread] = own[k];
  for (int half = channel_threads / 2; half >= packs; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
    const double others = counts[thread + half];
    if (others == 0.0) continue;
    const Join join(count, others);
    for (int k = 0; k < width; ++k) {
      own[k] = join(own[k], values[k][thread + half]);
      values[k][thread] = own[k];
    }
    count += others;
    counts[thread] = count;
  }
  __syncthreads();
}

inline constexpr int channels_per_block = 8;  // of the second stage

[[nodiscard]] inline Grid channel_grid(std::int64_t channels) {
  return {.blocks = ceil_div(channels, channels_per_block), .threads = channel_threads};
}

// Joins a sample's partial(slices, C) for a channel of the block; threads below channels_per_block
// get it.
template <typename Join, typename Value>
__device__ Value join_slices(const Value* partial, const ChannelTiles& tiles,
                             std::int64_t channel) {
  constexpr int lanes = channel_threads / channels_per_block;
  Value own[1] = {};
  double count = 0.0;
  if (channel < tiles.channels) {
    for (std::int64_t slice = threadIdx.x / channels_per_block; slice < tiles.slices;
         slice += lanes) {
      const double added = tiles.rows_of(slice);
      own[0] = Join(count, added)(own[0], partial[slice * tiles.channels + channel]);
      count += added;
    }
  }
  join_lanes<Join>(own, count, channels_per_block);
  return own[0];
}

// The channel of a thread in a grid made by channel_grid().
[[nodiscard]] inline __device__ std::int64_t channel_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * channels_per_block +
         threadIdx.x % channels_per_block;
}

}  // namespace trireme::ops::cuda
