// SPDX-License-Identifier: Apache-2.0
// Seconds of one layer for one micro-batch on one rank: its counted work (StepInput::work), and the
// messages that follow from its declaration. Private to this module.
#pragma once

#include "runtime/plan/step_time.h"

namespace trireme::plan {

struct LayerSeconds {
  double forward = 0;
  double backward_input = 0;   // gradient of the input
  double backward_weight = 0;  // gradients of the parameters
  double recompute = 0;        // forward work repeated in backward
  // Tensor-parallel messages that are not overlapped.
  double tensor_forward = 0, tensor_backward = 0;
  double tensor_bytes = 0;  // sent by the rank, overlapped or not
  // The same for rows on their way to experts and back; the time of the rank that receives most.
  double expert_forward = 0, expert_backward = 0, expert_bytes = 0;
  // The same for keys and values, or rows and heads, of sequences that ranks share.
  double context_forward = 0, context_backward = 0, context_bytes = 0;

  [[nodiscard]] double sent_forward() const {
    return tensor_forward + expert_forward + context_forward;
  }
  [[nodiscard]] double sent_backward() const {
    return tensor_backward + expert_backward + context_backward;
  }
};

// For layer number `layer`, on a rank without contention (added later). `block`: one of the
// repeated layers, to which recomputation and fp8 apply.
[[nodiscard]] LayerSeconds layer_seconds(std::size_t layer, bool block, const StepInput& input,
                                         const Hardware& hardware);

}  // namespace trireme::plan
