// SPDX-License-Identifier: Apache-2.0
// Private: direct convolution on NHWC in fp32. A strip of input rows that fits the second-level
// cache is copied once, with zero padding and as f32 (so bf16 operands are computed in f32 and
// rounded once), and register tiles run over it. No im2col matrix: in NHWC the taps of a kernel row
// are contiguous.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops::cpu::direct {

[[nodiscard]] std::size_t workspace_bytes(DType dtype, const PlaneGeometry& g);
template <typename T>
void forward(const PlaneGeometry& g, T* y, const T* x, const T* w, std::byte* workspace);
template <typename T>
void backward_input(const PlaneGeometry& g, T* dx, const T* dy, const T* w, std::byte* workspace);
template <typename T>
void backward_weight(const PlaneGeometry& g, float* dw, const T* dy, const T* x,
                     std::byte* workspace);

// Private: weights rearranged for sequential reads by a tile. Blocks of output channels (for dx:
// input channels) follow each other; in a block, (tap, channel) rows of one block width, with zeros
// for the missing channels of the last block.

// A residue class of input coordinates along an axis: coordinates i with (i + padding) mod stride
// equal to `residue` use the taps residue, residue + stride, ... Their gradient is a stride-1
// convolution of dy with these taps reversed.
struct TapClass {
  std::int64_t residue, taps;

  TapClass(std::int64_t residue_, std::int64_t stride, std::int64_t kernel)
      : residue(residue_),
        taps(residue_ < kernel ? (kernel - residue_ + stride - 1) / stride : 0) {}
};

template <typename T>
void pack_forward(const PlaneGeometry& g, float* panels, const T* w);
// Returns the end of the written data.
template <typename T>
float* pack_backward(const PlaneGeometry& g, const TapClass& vertical, const TapClass& horizontal,
                     float* panels, const T* w);

}  // namespace trireme::ops::cpu::direct
