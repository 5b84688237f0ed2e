// SPDX-License-Identifier: Apache-2.0
// What of a collective's tensor goes over the links.
#pragma once

#include "runtime/comm/timing/comm_stats.h"

namespace trireme {

// Whether a call gives each rank a slice of the tensor, or takes one of each.
inline bool cuts_tensor(Verb verb) {
  return verb == Verb::reduce_scatter || verb == Verb::all_gather || verb == Verb::all_to_all;
}

// Bytes that each of `ranks` sends, in rings, of each byte of the tensor; of recv: that it
// receives. In the terms of nccl-tests bus bandwidth / algorithm bandwidth.
inline double bus_factor(Verb verb, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (verb == Verb::all_reduce) return 2 * others;
  return cuts_tensor(verb) ? others : 1;
}

}  // namespace trireme
