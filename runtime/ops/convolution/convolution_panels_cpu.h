// SPDX-License-Identifier: Apache-2.0
// Private: weights rearranged for sequential reads by a tile. Blocks of output channels (for dx:
// input channels) follow each other; in a block, (tap, channel) rows of one block width, with zeros
// for the missing channels of the last block.
#pragma once

#include <cstdint>

#include "runtime/ops/convolution/convolution_workspace.h"

namespace trireme::ops::cpu::direct {

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
void pack_forward(const ConvolutionGeometry& g, float* panels, const T* w);
// Returns the end of the written data.
template <typename T>
float* pack_backward(const ConvolutionGeometry& g, const TapClass& vertical,
                     const TapClass& horizontal, float* panels, const T* w);

}  // namespace trireme::ops::cpu::direct
