// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/convolution_direct_plan_cpu.h"

namespace trireme::ops::cpu::direct {

namespace {

constexpr std::int64_t alignment_floats = 16;

std::int64_t aligned(std::int64_t floats) {
  return (floats + alignment_floats - 1) / alignment_floats * alignment_floats;
}

PaddedImages padded_input(const PlaneGeometry& g) {
  return {g.batch,
          g.height,
          g.width,
          g.in,
          g.padding,
          g.padding,
          g.height + 2 * g.padding,
          g.width + 2 * g.padding};
}

// Padding of dy: for the taps that reach back, and for rows and columns beyond the last output that
// input coordinates map to.
PaddedImages padded_gradient(const PlaneGeometry& g) {
  const std::int64_t top = (g.kernel_height - 1) / g.stride;
  const std::int64_t left = (g.kernel_width - 1) / g.stride;
  return {g.batch,
          g.out_height,
          g.out_width,
          g.out,
          top,
          left,
          top + std::max(g.out_height, (g.height - 1 + g.padding) / g.stride + 1),
          left + std::max(g.out_width, (g.width - 1 + g.padding) / g.stride + 1)};
}

std::int64_t strip_size(const PaddedImages& images, const StripPlan& strips) {
  return strips.images * strips.source_rows * images.pitch() + strip_slack;
}

// Each strip reads and writes all of dw once, so it must be long enough.
std::int64_t weight_strip_floats(const PlaneGeometry& g, const PaddedImages& images) {
  const std::int64_t image_pixels = g.out_height * g.out_width;
  std::int64_t floats = 0;
  if (image_pixels < weight_strip_pixels) {
    const std::int64_t count = (weight_strip_pixels + image_pixels - 1) / image_pixels;
    const std::int64_t rows = (g.out_height - 1) * g.stride + g.kernel_height;
    floats = count * rows * images.pitch();
  } else {
    const std::int64_t count = (weight_strip_pixels + g.out_width - 1) / g.out_width;
    floats = ((count - 1) * g.stride + g.kernel_height) * images.pitch();
  }
  return std::max(floats, min_weight_strip_floats);
}

}  // namespace

PlaneGeometry flattened(const PlaneGeometry& g) {
  if (g.kernel_height != 1 || g.kernel_width != 1 || g.stride != 1 || g.padding != 0) return g;
  constexpr std::int64_t long_enough = 48;
  const std::int64_t rows = g.batch * g.height;
  std::int64_t factor = 1;
  while (factor < rows && (g.width * factor < long_enough || rows % factor != 0))
    ++factor;
  PlaneGeometry flat = g;
  flat.batch = 1;
  flat.height = flat.out_height = rows / factor;
  flat.width = flat.out_width = g.width * factor;
  return flat;
}

std::size_t WorkspaceSizes::bytes() const {
  return static_cast<std::size_t>(aligned(panels) + aligned(strip) + aligned(partial)) *
         sizeof(float);
}

WorkspaceParts WorkspaceSizes::carve(std::byte* workspace) const {
  auto* const floats = reinterpret_cast<float*>(workspace);
  return {floats, floats + aligned(panels), floats + aligned(panels) + aligned(strip)};
}

ForwardPlan::ForwardPlan(const PlaneGeometry& g, DType dtype)
    : images(padded_input(g)),
      strips(images, g.out_height, g.out_width, g.stride, g.kernel_height - g.stride,
             strip_floats) {
  const bool in_place = dtype == DType::f32 && images.unpadded();
  sizes.panels = g.kernel_height * g.kernel_width * g.in * padded_channels(g.out);
  sizes.strip = in_place ? 0 : strip_size(images, strips);
  sizes.partial = strips.images * strips.rows * g.out_width * block_width;
}

BackwardPlan::BackwardPlan(const PlaneGeometry& g, DType dtype)
    : images(padded_gradient(g)),
      first_row(g.padding / g.stride),
      last_row((g.height - 1 + g.padding) / g.stride + 1),
      strips(images, last_row - first_row, (g.width + g.stride - 1) / g.stride, 1, images.top,
             strip_floats) {
  const bool in_place = dtype == DType::f32 && images.unpadded();
  sizes.panels = g.kernel_height * g.kernel_width * g.out * padded_channels(g.in);
  sizes.strip = in_place ? 0 : strip_size(images, strips);
  sizes.partial = strips.images * strips.rows * ((g.width + g.stride - 1) / g.stride) * block_width;
}

WeightPlan::WeightPlan(const PlaneGeometry& g, DType dtype)
    : images(padded_input(g)),
      strips(images, g.out_height, g.out_width, g.stride, g.kernel_height - g.stride,
             weight_strip_floats(g, images)),
      few_inputs(g.in < 8),
      packed(!few_inputs && g.out >= 64) {
  const std::int64_t run = g.kernel_width * g.in;
  const std::int64_t pixels = strips.images * strips.rows * g.out_width;
  copy_x = dtype != DType::f32 || !images.unpadded() || (!few_inputs && run % lanes != 0);
  copy_dy = packed || dtype != DType::f32 || (few_inputs && g.out % lanes != 0);
  if (few_inputs) {
    sizes.panels = g.kernel_height * run * padded_channels(g.out);
  } else {
    sizes.panels = (tile_height + (packed ? pixels : 0)) * block_width;
  }
  sizes.strip = copy_x ? strip_size(images, strips) : 0;
  sizes.partial = copy_dy ? pixels * g.out + strip_slack : 0;
}

}  // namespace trireme::ops::cpu::direct
