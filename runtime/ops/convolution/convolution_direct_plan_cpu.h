// SPDX-License-Identifier: Apache-2.0
// Private: direct convolution's plan, from shapes alone; used for workspace layout and execution.
#pragma once

#include <cstddef>

#include "runtime/ops/convolution/convolution_strips_cpu.h"
#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops::cpu::direct {

// A 1x1 convolution without stride or padding is a matrix product: treats its pixels as fewer,
// longer rows, which split better into tiles.
[[nodiscard]] PlaneGeometry flattened(const PlaneGeometry& g);

struct WorkspaceParts {
  float *panels, *strip, *partial;
};

// Floats of the three parts of a workspace, each rounded up to 64 bytes.
struct WorkspaceSizes {
  std::int64_t panels, strip, partial;

  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] WorkspaceParts carve(std::byte* workspace) const;
};

// `in_place`: unpadded f32 activations are read in place.
struct ForwardPlan {
  PaddedImages images;  // x
  StripPlan strips;     // of output rows
  WorkspaceSizes sizes;

  ForwardPlan(const PlaneGeometry& g, DType dtype);
};

// Row q of dy, counted with padding, is the last one that dx rows q * stride - padding .. + stride
// - 1 depend on.
struct BackwardPlan {
  PaddedImages images;               // dy
  std::int64_t first_row, last_row;  // q in [first_row, last_row)
  StripPlan strips;                  // of q
  WorkspaceSizes sizes;

  BackwardPlan(const PlaneGeometry& g, DType dtype);
};

struct WeightPlan {
  PaddedImages images;  // x
  StripPlan strips;     // of output rows
  // Few input channels: output channels fill the vectors, and the sums are transposed at the end.
  bool few_inputs;
  // Many channels: dy is packed in column tiles and x is gathered block by block.
  bool packed;
  // Whether x and dy are copied into the strip, because of padding, bf16, or vectors that would
  // read past the end.
  bool copy_x, copy_dy;
  WorkspaceSizes sizes;  // panels: transposed sums, or a tile and a block; strip: x; partial: dy

  WeightPlan(const PlaneGeometry& g, DType dtype);
};

}  // namespace trireme::ops::cpu::direct
