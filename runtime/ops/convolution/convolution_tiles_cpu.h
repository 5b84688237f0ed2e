// SPDX-License-Identifier: Apache-2.0
// Private: the two register-blocked inner loops of direct convolution. Both hold a tile of up to
// `tile_height` rows by two vectors in registers and add outer products of a row of broadcast
// floats with a row of vectors, which fills the register file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/ops/common/simd_cpu.h"

namespace trireme::ops::cpu {

inline constexpr int tile_height = lanes == 16 ? 12 : 6;
inline constexpr std::int64_t block_width = 2 * lanes;

// Keeps the compiler from folding a load into each multiply-add that uses it: narrow tiles would
// then be bound by the load ports.
[[gnu::always_inline]] inline void keep_in_register(Vector& value) {
#if defined(__x86_64__)
  asm("" : "+v"(value));
#else
  (void)value;
#endif
}

// Where a tile's pixels are read and written. Pixels of one row are `step` apart, and only the
// first entry of each array is used; a tile that crosses rows has an address per pixel.
struct TilePixels {
  const float* source[tile_height];
  float* to[tile_height];
  std::int64_t step, to_step;
};

// One block of output channels: to[p][c] (+)= sum over runs and their floats k of source[p][run *
// run_step + k] * panel[run * length + k][c]. A run covers one row of taps: in NHWC adjacent taps
// are adjacent in memory.
struct TileDepth {
  std::int64_t run_step, runs, length;
  const float* panel;
  bool accumulate;
};

template <int pixels, int vectors, bool crossing>
void convolve_tile(const TilePixels& at, const TileDepth& depth) {
  constexpr int sources = crossing ? pixels : 1;
  const float* source[sources];
  float* to[pixels];
  Vector sum[pixels][vectors];
#pragma GCC unroll 16
  for (int p = 0; p < sources; ++p)
    source[p] = at.source[p];
#pragma GCC unroll 16
  for (int p = 0; p < pixels; ++p) {
    to[p] = crossing ? at.to[p] : at.to[0] + p * at.to_step;
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      sum[p][v] = depth.accumulate ? load_vector(to[p] + v * lanes) : Vector{};
    }
  }
  const float* panel = depth.panel;
  const std::int64_t step = at.step, length = depth.length;
  for (std::int64_t r = 0; r < depth.runs; ++r) {
    for (std::int64_t k = 0; k < length; ++k, panel += vectors * lanes) {
      Vector weight[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        weight[v] = load_vector(panel + v * lanes);
        keep_in_register(weight[v]);
      }
#pragma GCC unroll 16
      for (int p = 0; p < pixels; ++p) {
        const float value = crossing ? source[p % sources][k] : source[0][p * step + k];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v)
          sum[p][v] += value * weight[v];
      }
    }
#pragma GCC unroll 16
    for (int p = 0; p < sources; ++p)
      source[p] += depth.run_step;
  }
#pragma GCC unroll 16
  for (int p = 0; p < pixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v)
      store_vector(to[p] + v * lanes, sum[p][v]);
  }
}

// Pixels of a strip: start, and distances to the next pixel, row and image.
struct PixelGrid {
  const float* data;
  std::int64_t step, row, image;
};

// One tile of a weight gradient: to[r][c] += sum over all pixels of narrow[r] * wide[c], r <
// height, c < one block.
struct PixelSum {
  PixelGrid narrow, wide;
  std::int64_t images, rows, pixels;
  float* to;
  std::int64_t to_step;
};

template <int height, int vectors>
void sum_tile(const PixelSum& job) {
  Vector sum[height][vectors] = {};
  const std::int64_t narrow_step = job.narrow.step, wide_step = job.wide.step;
  for (std::int64_t row = 0; row < job.images * job.rows; ++row) {
    const std::int64_t image = row / job.rows, line = row % job.rows;
    const float* narrow = job.narrow.data + image * job.narrow.image + line * job.narrow.row;
    const float* wide = job.wide.data + image * job.wide.image + line * job.wide.row;
    for (std::int64_t p = 0; p < job.pixels; ++p, narrow += narrow_step, wide += wide_step) {
      Vector right[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        right[v] = load_vector(wide + v * lanes);
        keep_in_register(right[v]);
      }
#pragma GCC unroll 16
      for (int r = 0; r < height; ++r) {
        const float value = narrow[r];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v)
          sum[r][v] += value * right[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < height; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* const to = job.to + r * job.to_step + v * lanes;
      store_vector(to, load_vector(to) + sum[r][v]);
    }
  }
}

// Calls tile(std::integral_constant<int, n>) for the run-time n in [1, tile_height].
template <typename Tile, int... heights>
void with_height(std::int64_t n, const Tile& tile, std::integer_sequence<int, heights...>) {
  (void)((n == heights + 1 && (tile(std::integral_constant<int, heights + 1>{}), true)) || ...);
}
template <typename Tile>
void with_height(std::int64_t n, const Tile& tile) {
  with_height(n, tile, std::make_integer_sequence<int, tile_height>{});
}

// Splits [0, count) into the fewest tiles of nearly equal height: a small last tile could not hide
// the latency of its multiply-adds. Calls body(first, height).
template <typename Body>
void for_each_height(std::int64_t count, const Body& body) {
  const std::int64_t tiles = (count + tile_height - 1) / tile_height;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t first = count * t / tiles;
    body(first, count * (t + 1) / tiles - first);
  }
}

// Whether rows of `pixels` pixels are better cut across their ends, as their own tiles are too low
// to hide the latency of the multiply-adds. Tall tiles have too few registers left for addresses.
[[nodiscard]] constexpr bool rows_are_short(std::int64_t pixels) {
  const std::int64_t tiles = (pixels + tile_height - 1) / tile_height;
  return tile_height <= 6 && pixels < 4 * tiles;
}

// `wide_block`: two vectors, else one.
template <bool crossing>
void convolve_pixels(const TilePixels& at, const TileDepth& depth, std::int64_t pixels,
                     bool wide_block) {
  with_height(pixels, [&](auto constant) {
    wide_block ? convolve_tile<constant(), 2, crossing>(at, depth)
               : convolve_tile<constant(), 1, crossing>(at, depth);
  });
}

inline void sum_pixels(const PixelSum& job, std::int64_t height, bool wide_block) {
  with_height(height, [&](auto constant) {
    wide_block ? sum_tile<constant(), 2>(job) : sum_tile<constant(), 1>(job);
  });
}

}  // namespace trireme::ops::cpu
