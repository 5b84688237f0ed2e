// SPDX-License-Identifier: Apache-2.0
// The share of a collective's tensor that crosses the links.
#pragma once

#include "runtime/comm/timing/comm_stats.h"

namespace trireme {

// Whether the call scatters slices of the tensor to the ranks or gathers them.
inline bool cuts_tensor(Verb verb) {
  return verb == Verb::reduce_scatter || verb == Verb::all_gather || verb == Verb::all_to_all;
}

// Bytes that each of `ranks` sends (recv: receives) per byte of the tensor, in a ring: the ratio of
// bus bandwidth to algorithm bandwidth of nccl-tests.
inline double bus_factor(Verb verb, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (verb == Verb::all_reduce) return 2 * others;
  return cuts_tensor(verb) ? others : 1;
}

}  // namespace trireme
