// SPDX-License-Identifier: Apache-2.0
// Seconds of one layer for one micro-batch on one rank. The work is what was counted of the layer
// (StepInput::work), or follows from what it declares: matrix parameters of shape (out, in) are
// products of `rows` rows; the rest of its flops is attention, or convolution where it has filters.
// Private to this room.
#pragma once

#include "runtime/plan/step_time.h"

namespace trireme::plan {

struct LayerSeconds {
  double forward = 0;
  double backward_input = 0;   // gradient of the input
  double backward_weight = 0;  // gradients of the parameters
  double recompute = 0;        // forward work that backward repeats
  // Tensor-parallel messages that nothing hides.
  double tensor_forward = 0, tensor_backward = 0;
  double tensor_bytes = 0;  // that the rank sends, hidden or not
};

// Of number `layer`; on a rank that has its node to itself, contention comes later. `block`: one of
// the repeated layers, which recomputation and fp8 concern.
[[nodiscard]] LayerSeconds layer_seconds(std::size_t layer, bool block, const StepInput& input,
                                         const Hardware& hardware);

}  // namespace trireme::plan
