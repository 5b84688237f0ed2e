// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_direct_cpu.h"
#include "runtime/ops/convolution/convolution_direct_plan_cpu.h"

namespace trireme::ops::cpu::direct {

namespace {

// One strip of both activations.
struct Strip {
  PixelGrid x, dy;
  std::int64_t pitch;  // from one padded row of x to the next
  std::int64_t images, rows;
};

PixelGrid moved(const PixelGrid& grid, std::int64_t floats) {
  return {grid.data + floats, grid.step, grid.row, grid.image};
}

// Destination of the sums of `height` output channels from `o` on over floats [j, j + width) of tap
// row `kh`: dw itself, or `spare` if the run ends inside the block.
void sum_into_weights(const PlaneGeometry& g, PixelSum job, float* dw, std::int64_t o,
                      std::int64_t height, std::int64_t kh, std::int64_t j, float* spare) {
  const std::int64_t run = g.kernel_width * g.in, filter = g.kernel_height * run;
  const std::int64_t width = width_of_block(j, run), valid = std::min(width, run - j);
  float* const to = dw + o * filter + kh * run + j;
  if (valid == width) {
    job.to = to;
    job.to_step = filter;
    sum_pixels(job, height, width == block_width);
    return;
  }
  std::fill_n(spare, height * width, 0.0F);
  job.to = spare;
  job.to_step = width;
  sum_pixels(job, height, width == block_width);
  for (std::int64_t r = 0; r < height; ++r) {
    for (std::int64_t c = 0; c < valid; ++c)
      to[r * filter + c] += spare[r * width + c];
  }
}

// Many input channels: vectors hold contiguous floats of a run of x, a tile is some output
// channels. All (row of taps, run) sums of these output channels are consecutive, so their columns
// of dy stay in the first-level cache.
void add_strip(const PlaneGeometry& g, const Strip& strip, float* dw, float* spare) {
  const std::int64_t run = g.kernel_width * g.in;
  for_each_height(g.out, [&](std::int64_t o, std::int64_t height) {
    for (std::int64_t kh = 0; kh < g.kernel_height; ++kh) {
      for (std::int64_t j = 0; j < run; j += width_of_block(j, run)) {
        const PixelSum job{moved(strip.dy, o),
                           moved(strip.x, kh * strip.pitch + j),
                           strip.images,
                           strip.rows,
                           g.out_width,
                           nullptr,
                           0};
        sum_into_weights(g, job, dw, o, height, kh, j, spare);
      }
    }
  });
}

// Copies the block of x at `from` for every pixel of the strip, contiguously.
void gather_block(float* to, const PixelGrid& from, const Strip& strip, std::int64_t out_width,
                  std::int64_t width) {
  for (std::int64_t image = 0; image < strip.images; ++image) {
    for (std::int64_t row = 0; row < strip.rows; ++row) {
      const float* pixel = from.data + image * from.image + row * from.row;
      for (std::int64_t w = 0; w < out_width; ++w, pixel += from.step, to += width) {
        for (std::int64_t v = 0; v < width; v += lanes)
          store_vector(to + v, load_vector(pixel + v));
      }
    }
  }
}

// Many channels on both sides: pixels are then so far apart that they share few sets of a cache. So
// dy is packed in tiles of columns (see pack_columns), each block of x is gathered once for all of
// them, and a tile's loop runs over all pixels of the strip.
void add_strip_packed(const PlaneGeometry& g, const Strip& strip, float* dw, float* spare,
                      float* block) {
  const std::int64_t run = g.kernel_width * g.in;
  const std::int64_t pixels = strip.images * strip.rows * g.out_width;
  for (std::int64_t kh = 0; kh < g.kernel_height; ++kh) {
    for (std::int64_t j = 0; j < run; j += width_of_block(j, run)) {
      const std::int64_t width = width_of_block(j, run);
      gather_block(block, moved(strip.x, kh * strip.pitch + j), strip, g.out_width, width);
      for_each_height(g.out, [&](std::int64_t o, std::int64_t height) {
        const PixelSum job{{strip.dy.data + o * pixels, height, 0, 0},
                           {block, width, 0, 0},
                           1,
                           1,
                           pixels,
                           nullptr,
                           0};
        sum_into_weights(g, job, dw, o, height, kh, j, spare);
      });
    }
  }
}

// Few input channels: vectors hold output channels. sums(KH, run, O padded).
void add_strip_transposed(const PlaneGeometry& g, const Strip& strip, float* sums) {
  const std::int64_t run = g.kernel_width * g.in, columns = padded_channels(g.out);
  for (std::int64_t kh = 0; kh < g.kernel_height; ++kh) {
    for_each_height(run, [&](std::int64_t j, std::int64_t height) {
      for (std::int64_t o = 0; o < g.out;) {
        const std::int64_t width = width_of_block(o, g.out);
        sum_pixels({moved(strip.x, kh * strip.pitch + j), moved(strip.dy, o), strip.images,
                    strip.rows, g.out_width, sums + (kh * run + j) * columns + o, columns},
                   height, width == block_width);
        o += width;
      }
    });
  }
}

// Padded x rows of a strip; `row` and `image` of the grid step over output rows and images.
template <typename T>
PixelGrid x_strip(const PlaneGeometry& g, const WeightPlan& plan, float* strip, const T* x,
                  std::int64_t n, std::int64_t images, std::int64_t h, std::int64_t rows) {
  const PaddedImages& p = plan.images;
  const std::int64_t image = g.height * g.width * g.in;
  const std::int64_t step = g.stride * g.in, row = g.stride * p.pitch();
  if constexpr (std::is_same_v<T, float>) {
    if (!plan.copy_x) return {x + n * image + h * row, step, row, image};
  }
  const std::int64_t slot = plan.strips.source_rows * p.pitch();
  for (std::int64_t i = 0; i < images; ++i) {
    copy_padded_rows(p, strip + i * slot, x + (n + i) * image, h * g.stride,
                     (rows - 1) * g.stride + g.kernel_height);
  }
  return {strip, step, row, slot};
}

// Columns of dy tile by tile: (tile, pixel, columns of the tile).
template <typename T>
void pack_columns(const PlaneGeometry& g, float* to, const T* dy, std::int64_t pixels) {
  for_each_height(g.out, [&](std::int64_t o, std::int64_t height) {
    const T* from = dy + o;
    std::int64_t p = 0;
    if constexpr (std::is_same_v<T, float>) {
      // Whole vectors: the next pixel overwrites the excess. The last pixel has no next.
      for (; p + 1 < pixels && o + lanes <= g.out; ++p, from += g.out, to += height) {
        store_vector(to, load_vector(from));
      }
    }
    for (; p < pixels; ++p, from += g.out, to += height) {
      for (std::int64_t c = 0; c < height; ++c)
        to[c] = load(from[c]);
    }
  });
}

template <typename T>
PixelGrid dy_strip(const PlaneGeometry& g, const WeightPlan& plan, float* strip, const T* dy,
                   std::int64_t n, std::int64_t images, std::int64_t h, std::int64_t rows) {
  const std::int64_t row = g.out_width * g.out, image = g.out_height * row;
  // Several images only as a whole, so the strip is contiguous in dy.
  const T* const from = dy + n * image + h * row;
  if (plan.packed) {
    pack_columns(g, strip, from, images * rows * g.out_width);
    return {strip, 0, 0, 0};
  }
  if constexpr (std::is_same_v<T, float>) {
    if (!plan.copy_dy) return {from, g.out, row, image};
  }
  const std::int64_t count = images * rows * row;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    strip[i] = load(from[i]);
  return {strip, g.out, row, rows * row};
}

}  // namespace

template <typename T>
void backward_weight(const PlaneGeometry& given, float* dw, const T* dy, const T* x,
                     std::byte* workspace) {
  const PlaneGeometry g = flattened(given);
  const WeightPlan plan(g, dtype_of<T>);
  const WorkspaceParts parts = plan.sizes.carve(workspace);
  const std::int64_t filter = g.kernel_height * g.kernel_width * g.in;
  const std::int64_t columns = padded_channels(g.out);
  if (plan.few_inputs) std::fill_n(parts.panels, filter * columns, 0.0F);
  for (std::int64_t n = 0; n < g.batch; n += plan.strips.images) {
    const std::int64_t images = std::min(plan.strips.images, g.batch - n);
    for (std::int64_t h = 0; h < g.out_height; h += plan.strips.rows) {
      const std::int64_t rows = std::min(plan.strips.rows, g.out_height - h);
      const Strip strip{x_strip(g, plan, parts.strip, x, n, images, h, rows),
                        dy_strip(g, plan, parts.partial, dy, n, images, h, rows),
                        plan.images.pitch(), images, rows};
      if (plan.few_inputs) {
        add_strip_transposed(g, strip, parts.panels);
      } else if (plan.packed) {
        add_strip_packed(g, strip, dw, parts.panels, parts.panels + tile_height * block_width);
      } else {
        add_strip(g, strip, dw, parts.panels);
      }
    }
  }
  if (!plan.few_inputs) return;
  for (std::int64_t o = 0; o < g.out; ++o) {
    for (std::int64_t k = 0; k < filter; ++k)
      dw[o * filter + k] += parts.panels[k * columns + o];
  }
}

template void backward_weight(const PlaneGeometry&, float*, const float*, const float*, std::byte*);
template void backward_weight(const PlaneGeometry&, float*, const bf16*, const bf16*, std::byte*);
template void backward_weight(const PlaneGeometry&, float*, const f16*, const f16*, std::byte*);

}  // namespace trireme::ops::cpu::direct
