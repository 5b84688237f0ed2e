// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_direct_cpu.h"

#include "runtime/ops/convolution/convolution_direct_plan_cpu.h"
#include "runtime/ops/convolution/convolution_matmul_cpu.h"

namespace trireme::ops::cpu::direct {

namespace {

// A strip has at most this many segments: a row each.
using Segments = std::array<Segment, strip_pixels>;

// Copies padded rows [first, first + count) of image n to the strip's `slot`, or points to them in
// place.
template <typename T>
const float* source_rows(const PaddedImages& p, const StripPlan& plan, float* strip, const T* data,
                         std::int64_t n, std::int64_t slot, std::int64_t first,
                         std::int64_t count) {
  const T* const image = data + n * p.height * p.width * p.channels;
  if constexpr (std::is_same_v<T, float>) {
    if (p.unpadded()) return image + first * p.pitch();
  }
  float* const to = strip + slot * plan.source_rows * p.pitch();
  copy_padded_rows(p, to, image, first, count);
  return to;
}

}  // namespace

std::size_t workspace_bytes(DType dtype, const PlaneGeometry& given) {
  const PlaneGeometry g = flattened(given);
  return std::max({ForwardPlan(g, dtype).sizes.bytes(), BackwardPlan(g, dtype).sizes.bytes(),
                   WeightPlan(g, dtype).sizes.bytes()});
}

template <typename T>
void forward(const PlaneGeometry& given, T* y, const T* x, const T* w, std::byte* workspace) {
  const PlaneGeometry g = flattened(given);
  const ForwardPlan plan(g, dtype_of<T>);
  const WorkspaceParts parts = plan.sizes.carve(workspace);
  const PaddedImages& p = plan.images;
  pack_forward(g, parts.panels, w);
  const Gemm<T> gemm{g.stride * g.in, p.pitch(), g.kernel_height, g.kernel_width * g.in,
                     parts.panels,    y,         g.out,           g.out,
                     g.out_width};
  Segments segments;
  for (std::int64_t n = 0; n < g.batch; n += plan.strips.images) {
    const std::int64_t images = std::min(plan.strips.images, g.batch - n);
    for (std::int64_t h = 0; h < g.out_height; h += plan.strips.rows) {
      const std::int64_t rows = std::min(plan.strips.rows, g.out_height - h);
      std::size_t used = 0;
      for (std::int64_t i = 0; i < images; ++i) {
        const float* const source =
            source_rows(p, plan.strips, parts.strip, x, n + i, i, h * g.stride,
                        (rows - 1) * g.stride + g.kernel_height);
        for (std::int64_t row = 0; row < rows; ++row) {
          segments[used++] = {source + row * g.stride * p.pitch(),
                              ((n + i) * g.out_height + h + row) * g.out_width * g.out};
        }
      }
      multiply(gemm, std::span(segments).first(used), parts.partial);
    }
  }
}

namespace {

// The dx pixels of one residue class, and the taps that reach them.
struct InputClass {
  TapClass vertical, horizontal;
  std::int64_t first_column;  // of x
  std::int64_t columns;

  InputClass(const PlaneGeometry& g, std::int64_t index)
      : vertical(index / g.stride, g.stride, g.kernel_height),
        horizontal(index % g.stride, g.stride, g.kernel_width),
        first_column((horizontal.residue - g.padding) % g.stride) {
    if (first_column < 0) first_column += g.stride;
    columns = first_column < g.width ? (g.width - 1 - first_column) / g.stride + 1 : 0;
  }
};

// Appends the class's rows of image n that padded dy rows [q, q + rows) determine, with the dy rows
// they need; these begin at `source`.
std::size_t add_segments(const PlaneGeometry& g, const PaddedImages& p, const InputClass& part,
                         Segments& segments, std::size_t used, const float* source, std::int64_t n,
                         std::int64_t q, std::int64_t rows) {
  const std::int64_t column =
      (part.first_column + g.padding) / g.stride + p.left - (part.horizontal.taps - 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t h = (q + row) * g.stride + part.vertical.residue - g.padding;
    if (h < 0 || h >= g.height) continue;
    segments[used++] = {
        source + (row + p.top - (part.vertical.taps - 1)) * p.pitch() + column * p.channels,
        ((n * g.height + h) * g.width + part.first_column) * g.in};
  }
  return used;
}

// Zeroes pixels that no tap reaches.
template <typename T>
void clear_segments(const Gemm<T>& gemm, std::span<const Segment> segments) {
  for (const Segment& segment : segments) {
    for (std::int64_t i = 0; i < gemm.pixels; ++i) {
      std::fill_n(gemm.out + segment.out + i * gemm.out_step, gemm.channels, T(0.0F));
    }
  }
}

}  // namespace

template <typename T>
void backward_input(const PlaneGeometry& given, T* dx, const T* dy, const T* w,
                    std::byte* workspace) {
  const PlaneGeometry g = flattened(given);
  const BackwardPlan plan(g, dtype_of<T>);
  const WorkspaceParts parts = plan.sizes.carve(workspace);
  const PaddedImages& p = plan.images;
  const std::int64_t classes = g.stride * g.stride;
  float* packed = parts.panels;
  for (std::int64_t c = 0; c < classes; ++c) {
    const InputClass part(g, c);
    packed = pack_backward(g, part.vertical, part.horizontal, packed, w);
  }
  Segments segments;
  std::array<const float*, strip_pixels> sources;
  for (std::int64_t n = 0; n < g.batch; n += plan.strips.images) {
    const std::int64_t images = std::min(plan.strips.images, g.batch - n);
    for (std::int64_t q = plan.first_row; q < plan.last_row; q += plan.strips.rows) {
      const std::int64_t rows = std::min(plan.strips.rows, plan.last_row - q);
      for (std::int64_t i = 0; i < images; ++i) {
        sources[static_cast<std::size_t>(i)] =
            source_rows(p, plan.strips, parts.strip, dy, n + i, i, q, rows + p.top);
      }
      const float* panels = parts.panels;
      for (std::int64_t c = 0; c < classes; ++c) {
        const InputClass part(g, c);
        const Gemm<T> gemm{
            g.out, p.pitch(),       part.vertical.taps, part.horizontal.taps * g.out, panels, dx,
            g.in,  g.stride * g.in, part.columns};
        const std::int64_t depth = gemm.runs * gemm.length;
        panels += depth * padded_channels(g.in);
        std::size_t used = 0;
        for (std::int64_t i = 0; i < images; ++i) {
          used = add_segments(g, p, part, segments, used, sources[static_cast<std::size_t>(i)],
                              n + i, q, rows);
        }
        const auto strip = std::span<const Segment>(segments).first(used);
        if (depth == 0 || part.columns == 0) {
          clear_segments(gemm, strip);
        } else {
          multiply(gemm, strip, parts.partial);
        }
      }
    }
  }
}

template void forward(const PlaneGeometry&, float*, const float*, const float*, std::byte*);
template void forward(const PlaneGeometry&, bf16*, const bf16*, const bf16*, std::byte*);
template void forward(const PlaneGeometry&, f16*, const f16*, const f16*, std::byte*);
template void backward_input(const PlaneGeometry&, float*, const float*, const float*, std::byte*);
template void backward_input(const PlaneGeometry&, bf16*, const bf16*, const bf16*, std::byte*);
template void backward_input(const PlaneGeometry&, f16*, const f16*, const f16*, std::byte*);

}  // namespace trireme::ops::cpu::direct
