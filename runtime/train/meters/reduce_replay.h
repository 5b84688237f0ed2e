// SPDX-License-Identifier: Apache-2.0
// What reducing gradients costs, measured on a group that is idle, and how much of it other buckets
// would leave behind the last pass backward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

// Milliseconds of one call: what every call takes, and what each element adds.
struct ReduceCost {
  double call = 0, element = 0;
  [[nodiscard]] double of(std::int64_t elements) const {
    return call + element * static_cast<double>(elements);
  }
};

// One call for a bucket of `small` elements and one for all of `values` (f32; zeros are written
// there), each a few times; `scatter`: each rank gets its slice only. Nothing else may be in
// flight. Collective; blocks the host.
[[nodiscard]] ReduceCost measure_reduction(Communicator& group, Stream& comm, const Tensor& values,
                                           std::int64_t small, bool scatter);

// Elements of each bucket when neighbours are joined until they have `target`, as ParamLayout does.
[[nodiscard]] std::vector<std::int64_t> joined_buckets(std::span<const std::int64_t> buckets,
                                                       std::int64_t target);

// Of buckets that are reduced one after another, each from when its gradients are there: how long
// the last one ends behind the pass. Gradients come evenly over its `backward` milliseconds.
[[nodiscard]] double exposed_reduction(std::span<const std::int64_t> buckets, double backward,
                                       const ReduceCost& cost);

}  // namespace trireme
