// SPDX-License-Identifier: Apache-2.0
// Private: the product of one strip with all panels, for y and for dx.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "runtime/ops/convolution/convolution_strips_cpu.h"

namespace trireme::ops::cpu::direct {

// A row of neighbouring result pixels: where the first one's sources begin, and its first element
// in the result.
struct Segment {
  const float* source;
  std::int64_t out;
};

template <typename T>
struct Product {
  std::int64_t pixel_step;              // floats between neighbouring pixels of the source
  std::int64_t run_step, runs, length;  // as in TileDepth
  const float* panels;
  T* out;
  std::int64_t channels;  // of the result
  std::int64_t out_step;  // elements between neighbouring pixels of a segment
  std::int64_t pixels;    // of each segment
};

// Depth (floats of a run, over runs) that is worked on at a time: its part of a panel stays in the
// first-level cache while the strip passes.
inline constexpr std::int64_t depth_at_once = 768;

struct DepthChunk {
  std::int64_t first_run, runs, first, length;
  bool begins, ends;
};

// Whole runs while they are short, else parts of one run.
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

// What one pass over a strip's pixels works on: one block of channels, one chunk of depth.
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
void pass_rows(const Product<T>& product, std::span<const Segment> segments,
               const BlockPass<T>& pass) {
  TilePixels at{};
  at.step = product.pixel_step;
  at.to_step = pass.in_place ? product.out_step : pass.width;
  std::int64_t before = 0;  // pixels of earlier segments
  for (const Segment& segment : segments) {
    for_each_height(product.pixels, [&](std::int64_t first, std::int64_t count) {
      at.source[0] = segment.source + first * product.pixel_step + pass.offset;
      at.to[0] = place_of(pass, segment.out + first * product.out_step, before + first);
      convolve_pixels<false>(at, pass.depth, count, pass.width == block_width);
    });
    if (!pass.in_place && pass.ends) {
      for (std::int64_t p = 0; p < product.pixels; ++p) {
        store_pixel(pass, segment.out + p * product.out_step, before + p);
      }
    }
    before += product.pixels;
  }
}

// The same with tiles that go on in the next row.
template <typename T>
void pass_short_rows(const Product<T>& product, std::span<const Segment> segments,
                     const BlockPass<T>& pass) {
  TilePixels at{};
  std::int64_t outs[tile_height];
  auto segment = segments.begin();
  std::int64_t column = 0;
  const auto rows = static_cast<std::int64_t>(segments.size());
  for_each_height(rows * product.pixels, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t p = 0; p < count; ++p) {
      outs[p] = segment->out + column * product.out_step;
      at.source[p] = segment->source + column * product.pixel_step + pass.offset;
      at.to[p] = place_of(pass, outs[p], first + p);
      if (++column == product.pixels) {
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

// One block of channels. `partial` holds a block of all the strip's pixels, for results that cannot
// be summed up in place: bf16, or fewer channels than the block is wide.
template <typename T>
void multiply_block(const Product<T>& product, const float* panel, std::int64_t channel,
                    std::int64_t width, std::span<const Segment> segments, float* partial) {
  const std::int64_t valid = std::min(width, product.channels - channel);
  for_each_chunk(product.runs, product.length, [&](const DepthChunk& chunk) {
    const BlockPass<T> pass{
        product.out + channel,
        width,
        valid,
        chunk.first_run * product.run_step + chunk.first,
        {product.run_step, chunk.runs, chunk.length,
         panel + (chunk.first_run * product.length + chunk.first) * width, !chunk.begins},
        std::is_same_v<T, float> && valid == width,
        chunk.ends,
        partial};
    if (rows_are_short(product.pixels)) {
      pass_short_rows(product, segments, pass);
    } else {
      pass_rows(product, segments, pass);
    }
  });
}

template <typename T>
void multiply(const Product<T>& product, std::span<const Segment> segments, float* partial) {
  const float* panel = product.panels;
  for (std::int64_t channel = 0; channel < product.channels;) {
    const std::int64_t width = width_of_block(channel, product.channels);
    multiply_block(product, panel, channel, width, segments, partial);
    panel += product.runs * product.length * width;
    channel += width;
  }
}

}  // namespace trireme::ops::cpu::direct
