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
    count
  };
};

// Row of micro-batch `k` of the global batch where every rank's `of_rank` rows follow the rank's
// before, and groups of `turns` ranks take the group's micro-batches in turn.
TRIREME_HOST_DEVICE inline std::int64_t row_of_sums(std::int64_t k, std::int64_t turns,
                                                    std::int64_t of_rank) {
  const std::int64_t of_group = turns * of_rank, in_group = k % of_group;
  return (k / of_group * turns + in_group % turns) * of_rank + in_group / turns;
}

// At least one: a step with all targets ignored has zero loss and gradient.
TRIREME_HOST_DEVICE inline double counted_targets(const double* sums, std::int64_t micro_batches) {
  double count = 0.0;  // integers: the bits do not depend on the order
  for (std::int64_t k = 0; k < micro_batches; ++k)
    count += sums[k * LossSums::count + LossSums::targets];
  return count > 1.0 ? count : 1.0;
}

}  // namespace trireme::ops
