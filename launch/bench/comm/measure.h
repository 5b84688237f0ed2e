// SPDX-License-Identifier: Apache-2.0
// How long a collective takes on a group, in the terms of nccl-tests
// (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): what a size means;
// bus_factor() leads from algorithm bandwidth, size / time, to bus bandwidth, which the links see.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/comm/timing/bus_factor.h"

namespace trireme::comm_bench {

// Every rank of `recv` sends to the next of its group and receives from the one before; nccl-tests
// calls that sendrecv.
inline constexpr Verb collectives[] = {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather,
                                       Verb::all_to_all, Verb::broadcast,      Verb::recv};
// "send_recv" for Verb::recv.
[[nodiscard]] std::string_view title_of(Verb verb);
// `bytes` rounded down to whole f32 elements, the same number for each rank where a collective cuts
// the tensor; at least one for each.
[[nodiscard]] std::int64_t size_of(Verb verb, int ranks, std::int64_t bytes);

struct MeasureOptions {
  int repeats = 9;
  // Calls follow each other without a pause for about so long, and count together as one repeat.
  double batch_seconds = 2e-3;
  // Above 0: so long the host computes before each call, and then waits for it, as a rank on a CPU
  // does whose layers need each other's results. The stream's thread has gone to sleep meanwhile;
  // handing it the call and coming back counts. The pauses do not.
  double pause_seconds = 0;
};

// Seconds of one call, on the slowest rank of any group.
struct CommTime {
  double median = 0, fastest = 0;
  std::int64_t wrong = 0;  // elements of the results, over all ranks
};

// Times `verb` on tensors of `bytes` (of size_of(); what VerbStats counts) of memory of `device`,
// on a comm stream as training does. All groups of one kind measure at once: every rank of `world`
// calls this alike with its group. Collective; blocks the host.
[[nodiscard]] CommTime measure(Communicator& group, Communicator& world, Device& device, Verb verb,
                               std::int64_t bytes, const MeasureOptions& options = {});

// t = latency + bytes / bandwidth.
struct LinkFit {
  double latency = 0;    // alpha: seconds
  double bandwidth = 0;  // 1 / beta: bytes per second; 0 = the times do not grow with the bytes
};

struct TimedBytes {
  double bytes = 0, seconds = 0;
};

// The least squares of the relative errors, so that small messages count as much as large ones;
// no latency below 0. Of one size all time is latency.
[[nodiscard]] LinkFit fit_link(std::span<const TimedBytes> times);

}  // namespace trireme::comm_bench
