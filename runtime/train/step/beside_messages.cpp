// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/beside_messages.h"

namespace trireme {

// Parameters of ZeRO 1 and 2 are gathered for a step's first forward, of ZeRO 3 before each use;
// gradients of ZeRO 0 and 1 are reduced in the last backward, of 2 and 3 in each.
int MessageProcessors::beside(int micro_batch, int micro_batches) const {
  const bool last = micro_batch + 1 == micro_batches;
  const bool gathers = zero == 3 || (zero > 0 && micro_batch == 0);
  const bool reduces = zero >= 2 || last;
  return receives * link + tensor + (gathers ? gather : 0) + (reduces ? data : 0);
}

int MessageProcessors::everywhere() const {
  constexpr int between = 1, of_three = 3;  // neither the first nor the last
  return beside(between, of_three);
}

std::set<int> MessageProcessors::values() const {
  return {0, beside(0, 1), beside(0, 3), everywhere(), beside(2, 3)};
}

}  // namespace trireme
