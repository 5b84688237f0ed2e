// SPDX-License-Identifier: Apache-2.0
// The loss contributions of each micro-batch of a step: columns of a (micro-batches, count) f64
// tensor. Targets of -1, or NaN, add nothing; a step's loss, and so its gradient, is the mean over
// the counted targets.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"

namespace trireme::ops {

struct LossSums {
  enum Index : int {
    loss,     // nats, or of values their loss
    correct,  // correct predictions, or of values absolute errors
    // Only in evaluations: targets among the five most likely classes; of pixels both overlaps that
    // ops::mean_iou gives; of maps of values that of ops::vrmse.
    second,
    third,
    targets,  // number of counted ones
    // Of pixels in evaluations, where all above are sums over samples: those with a counted target,
    // and with a `third`.
    samples,
    thirds,
    count
  };
};

// Where the sums of a global batch lie. Every rank's rows follow the rank's before; groups of
// `turns` sample ranks take the group's micro-batches in turn, `of_rank` each. A sample rank is
// `context` ranks, each with `blocks` blocks of every micro-batch (nn/context_split.h).
struct SumsOrder {
  std::int64_t turns = 1, of_rank = 1, context = 1, blocks = 1;
  friend bool operator==(const SumsOrder&, const SumsOrder&) = default;
};

// Row `k` in the order of the global batch: micro-batch after micro-batch, and of each the blocks.
TRIREME_HOST_DEVICE inline std::int64_t row_of_sums(std::int64_t k, const SumsOrder& order) {
  const std::int64_t parts = order.context * order.blocks, batch = k / parts, block = k % parts;
  const std::int64_t of_group = order.turns * order.of_rank, in_group = batch % of_group;
  const std::int64_t sample = batch / of_group * order.turns + in_group % order.turns;
  const std::int64_t rank = sample * order.context + block / order.blocks;
  return (rank * order.of_rank + in_group / order.turns) * order.blocks + block % order.blocks;
}

TRIREME_HOST_DEVICE inline double targets_in(const double* sums, std::int64_t micro_batches) {
  double count = 0.0;  // integers: the bits do not depend on the order
  for (std::int64_t k = 0; k < micro_batches; ++k)
    count += sums[k * LossSums::count + LossSums::targets];
  return count;
}

// At least one: a step with all targets ignored has zero loss and gradient.
TRIREME_HOST_DEVICE inline double counted_targets(const double* sums, std::int64_t micro_batches) {
  const double count = targets_in(sums, micro_batches);
  return count > 1.0 ? count : 1.0;
}

}  // namespace trireme::ops
