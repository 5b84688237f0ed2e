// SPDX-License-Identifier: Apache-2.0
// Private: the product of one strip with all panels, for y and for dx.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "runtime/ops/convolution/convolution_strips_cpu.h"

namespace trireme::ops::cpu::direct {

// A row of adjacent result pixels: where the first one's sources begin, and its first element in
// the result.
struct Segment {
  const float* source;
  std::int64_t out;
};

template <typename T>
struct Gemm {
  std::int64_t pixel_step;              // floats between adjacent pixels of the source
  std::int64_t run_step, runs, length;  // as in TileDepth
  const float* panels;
  T* out;
  std::int64_t channels;  // of the result
  std::int64_t out_step;  // elements between adjacent pixels of a segment
  std::int64_t pixels;    // per segment
};

// Depth (floats of a run, over runs) processed at a time: its part of a panel stays in the
// first-level cache while the strip passes.
inline constexpr std::int64_t depth_at_once = 768;

struct DepthChunk {
  std::int64_t first_run, runs, first, length;
  bool begins, ends;
};

// Whole runs if they are short, else parts of one run.
template <typename Body>
void for_each_chunk(std::int64_t runs, std::int64_t length, const Body& body) {
  const std::int64_t runs_at_once = std::max<std::int64_t>(1, depth_at_once / length);
  const std::int64_t parts = (length - 1) / depth_at_once + 1;
  for (std::int64_t run = 0; run < runs; run += runs_at_once) {
    const std::int64_t count = std::min(runs_at_once, runs - run);
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = length * part / parts;
      body(DepthChunk{run, count, first, length * (part + 1) / parts - first, run == 0 && part == 0,
                      run + count == runs && part + 1 == parts});
    }
  }
}

// The work of one pass over a strip's pixels: one block of channels, one chunk of depth.
template <typename T>
struct BlockPass {
  T* out;  // the block's first channel
  std::int64_t width, valid;
  std::int64_t offset;  // of the chunk, from a pixel's first source
  TileDepth depth;
  bool in_place, ends;
  float* partial;
};

template <typename T>
float* place_of(const BlockPass<T>& pass, std::int64_t out, std::int64_t pixel) {
  if constexpr (std::is_same_v<T, float>) {
    if (pass.in_place) return pass.out + out;
  }
  return pass.partial + pixel * pass.width;
}

template <typename T>
void store_pixel(const BlockPass<T>& pass, std::int64_t out, std::int64_t pixel) {
  const float* const from = pass.partial + pixel * pass.width;
#pragma omp simd
  for (std::int64_t c = 0; c < pass.valid; ++c)
    store(pass.out[out + c], from[c]);
}

template <typename T>
void pass_rows(const Gemm<T>& gemm, std::span<const Segment> segments, const BlockPass<T>& pass) {
  TilePixels at{};
  at.step = gemm.pixel_step;
  at.to_step = pass.in_place ? gemm.out_step : pass.width;
  std::int64_t before = 0;  // pixels of earlier segments
  for (const Segment& segment : segments) {
    for_each_height(gemm.pixels, [&](std::int64_t first, std::int64_t count) {
      at.source[0] = segment.source + first * gemm.pixel_step + pass.offset;
      at.to[0] = place_of(pass, segment.out + first * gemm.out_step, before + first);
      convolve_pixels<false>(at, pass.depth, count, pass.width == block_width);
    });
    if (!pass.in_place && pass.ends) {
      for (std::int64_t p = 0; p < gemm.pixels; ++p) {
        store_pixel(pass, segment.out + p * gemm.out_step, before + p);
      }
    }
    before += gemm.pixels;
  }
}

// The same with tiles that continue in the next row.
template <typename T>
void pass_short_rows(const Gemm<T>& gemm, std::span<const Segment> segments,
                     const BlockPass<T>& pass) {
  TilePixels at{};
  std::int64_t outs[tile_height];
  auto segment = segments.begin();
  std::int64_t column = 0;
  const auto rows = static_cast<std::int64_t>(segments.size());
  for_each_height(rows * gemm.pixels, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t p = 0; p < count; ++p) {
      outs[p] = segment->out + column * gemm.out_step;
      at.source[p] = segment->source + column * gemm.pixel_step + pass.offset;
      at.to[p] = place_of(pass, outs[p], first + p);
      if (++column == gemm.pixels) {
        column = 0;
        ++segment;
      }
    }
    convolve_pixels<true>(at, pass.depth, count, pass.width == block_width);
    if (pass.in_place || !pass.ends) return;
    for (std::int64_t p = 0; p < count; ++p)
      store_pixel(pass, outs[p], first + p);
  });
}

// One block of channels. `partial` holds it for all of the strip's pixels, for results that cannot
// be summed in place: bf16, or fewer channels than the block is wide.
template <typename T>
void multiply_block(const Gemm<T>& gemm, const float* panel, std::int64_t channel,
                    std::int64_t width, std::span<const Segment> segments, float* partial) {
  const std::int64_t valid = std::min(width, gemm.channels - channel);
  for_each_chunk(gemm.runs, gemm.length, [&](const DepthChunk& chunk) {
    const BlockPass<T> pass{
        gemm.out + channel,
        width,
        valid,
        chunk.first_run * gemm.run_step + chunk.first,
        {gemm.run_step, chunk.runs, chunk.length,
         panel + (chunk.first_run * gemm.length + chunk.first) * width, !chunk.begins},
        std::is_same_v<T, float> && valid == width,
        chunk.ends,
        partial};
    if (rows_are_short(gemm.pixels)) {
      pass_short_rows(gemm, segments, pass);
    } else {
      pass_rows(gemm, segments, pass);
    }
  });
}

template <typename T>
void multiply(const Gemm<T>& gemm, std::span<const Segment> segments, float* partial) {
  const float* panel = gemm.panels;
  for (std::int64_t channel = 0; channel < gemm.channels;) {
    const std::int64_t width = width_of_block(channel, gemm.channels);
    multiply_block(gemm, panel, channel, width, segments, partial);
    panel += gemm.runs * gemm.length * width;
    channel += width;
  }
}

}  // namespace trireme::ops::cpu::direct
