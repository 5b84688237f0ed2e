// SPDX-License-Identifier: Apache-2.0
// What every micro-batch of a step leaves of its loss: columns of a (micro-batches, count) f64
// tensor. Targets of -1 add to none of them; the loss of a step, and so its gradient, is the mean
// over the targets that are counted.
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"

namespace trireme::ops {

struct LossSums {
  enum Index : int {
    loss,     // nats
    hits,     // predictions that were right
    top5,     // targets among the five likeliest; counted in evaluations only
    targets,  // that count
    count
  };
};

// At least one: a step whose targets are all ignored has loss and gradient zero.
TRIREME_HOST_DEVICE inline double counted_targets(const double* sums, std::int64_t micro_batches) {
  double count = 0.0;  // whole numbers: no order has other bits
  for (std::int64_t k = 0; k < micro_batches; ++k)
    count += sums[k * LossSums::count + LossSums::targets];
  return count > 1.0 ? count : 1.0;
}

}  // namespace trireme::ops
