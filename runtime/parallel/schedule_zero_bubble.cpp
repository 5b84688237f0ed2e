// SPDX-License-Identifier: Apache-2.0
// ZB-H1: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.1.
#include <algorithm>

#include "runtime/parallel/schedule_order.h"

namespace trireme {

// 1F1B with weight gradients delayed by `stage` micro-batches after the input gradients: stage s
// holds stages - s micro-batches for the backward and s more for the weights, so every stage holds
// as many as stage 0 of 1F1B. Those s weight gradients fill the end of the step, where 1F1B waits.
//
// A weight gradient precedes the backward of its round: that frees the slot of the next forward's
// input one computation earlier, so the input can be received ahead without another slot. The last
// round has no input to receive and sends its gradient first.
std::vector<Action> zero_bubble_order(int stages, int micro_batches, int stage) {
  std::vector<Action> order;
  int forwards = 0;
  for (; forwards < std::min(stages - stage - 1, micro_batches); ++forwards)
    order.push_back({ActionKind::forward, 0, forwards});
  for (int backwards = 0; backwards < micro_batches; ++backwards) {
    if (forwards < micro_batches) order.push_back({ActionKind::forward, 0, forwards++});
    const Action backward{ActionKind::backward, 0, backwards};
    const Action weight{ActionKind::backward_weight, 0, backwards - stage};
    const bool has_weight = weight.micro_batch >= 0;
    const bool weight_first = has_weight && stage > 0 && forwards < micro_batches;
    if (weight_first) order.push_back(weight);
    order.push_back(backward);
    if (has_weight && !weight_first) order.push_back(weight);
  }
  for (int m = std::max(micro_batches - stage, 0); m < micro_batches; ++m)
    order.push_back({ActionKind::backward_weight, 0, m});
  return order;
}

}  // namespace trireme
