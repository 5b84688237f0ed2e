// SPDX-License-Identifier: Apache-2.0
// Private: the product of one strip with all panels, for y and for dx.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "runtime/ops/convolution_strips.h"

namespace trireme::ops::cpu::direct {

// Neighbouring result pixels: where their sources begin, and their first element in the result.
struct Segment {
  const float* source;
  std::int64_t out;
  std::int64_t pixels;
};

template <typename T>
struct Product {
  std::int64_t pixel_step, run_step, runs, length;  // of the source, as in PixelRow
  const float* panels;
  T* out;
  std::int64_t channels;  // of the result
  std::int64_t out_step;  // elements between neighbouring pixels of a segment
};

// Depth (floats of a run, over runs) that is worked on at a time: its part of a panel stays in the
// first-level cache while the strip passes.
inline constexpr std::int64_t depth_at_once = 320;

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

template <typename T>
void store_block(T* to, std::int64_t step, const float* from, std::int64_t width,
                 std::int64_t valid, std::int64_t pixels) {
  for (std::int64_t p = 0; p < pixels; ++p, to += step, from += width) {
#pragma omp simd
    for (std::int64_t c = 0; c < valid; ++c)
      store(to[c], from[c]);
  }
}

// One block of channels. `partial` holds a block of all the strip's pixels, for results that cannot
// be summed up in place: bf16, or fewer channels than the block is wide.
template <typename T>
void multiply_block(const Product<T>& product, const float* panel, std::int64_t channel,
                    std::int64_t width, std::span<const Segment> segments, float* partial) {
  const std::int64_t valid = std::min(width, product.channels - channel);
  const bool in_place = std::is_same_v<T, float> && valid == width;
  for_each_chunk(product.runs, product.length, [&](const DepthChunk& chunk) {
    float* sums = partial;
    for (const Segment& segment : segments) {
      T* const out = product.out + segment.out + channel;
      PixelRow row{segment.source + chunk.first_run * product.run_step + chunk.first,
                   product.pixel_step,
                   product.run_step,
                   chunk.runs,
                   chunk.length,
                   panel + (chunk.first_run * product.length + chunk.first) * width,
                   sums,
                   width,
                   !chunk.begins};
      if constexpr (std::is_same_v<T, float>) {
        if (in_place) {
          row.to = out;
          row.to_step = product.out_step;
        }
      }
      convolve_row(row, segment.pixels, width == block_width);
      if (in_place) continue;
      if (chunk.ends) store_block(out, product.out_step, sums, width, valid, segment.pixels);
      sums += segment.pixels * width;
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
