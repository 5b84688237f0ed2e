// SPDX-License-Identifier: Apache-2.0
// Measures a collective on a group, in the terms of nccl-tests
// (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) for sizes; bus_factor()
// converts algorithm bandwidth (size / time) to bus bandwidth.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/comm/timing/comm_stats.h"

namespace trireme::comm_bench {

// `recv`: each rank sends to the next rank of its group and receives from the previous one;
// nccl-tests calls it sendrecv.
inline constexpr Verb collectives[] = {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather,
                                       Verb::all_to_all, Verb::broadcast,      Verb::recv};
// Prints Verb::recv as "send_recv".
[[nodiscard]] std::string_view title_of(Verb verb);
// `bytes` rounded down to whole f32 elements, equally many per rank if the collective cuts the
// tensor, and at least one each.
[[nodiscard]] std::int64_t size_of(Verb verb, int ranks, std::int64_t bytes);

struct MeasureOptions {
  int repeats = 9;
  // Back-to-back calls for about this time count as one repeat.
  double batch_seconds = 2e-3;
  // If above 0, the host computes this long before each call and then waits for the call, like a
  // rank on a CPU whose layers depend on each other. The stream's thread sleeps meanwhile; handing
  // over the call and returning count, the pauses do not.
  double pause_seconds = 0;
};

// Seconds per call, on the slowest rank of any group.
struct CommTime {
  double median = 0, fastest = 0;
  std::int64_t wrong = 0;  // elements of the results, over all ranks
};

// Times `verb` on tensors of `bytes` (of size_of(), as VerbStats counts) in memory of `device`, on
// a comm stream as in training. All groups of one kind measure at once: every rank of `world` calls
// this with its group. Collective; blocks the host.
[[nodiscard]] CommTime measure(Communicator& group, Communicator& world, Device& device, Verb verb,
                               std::int64_t bytes, const MeasureOptions& options = {});

// t = latency + bytes / bandwidth.
struct LinkFit {
  double latency = 0;    // alpha: seconds
  double bandwidth = 0;  // 1 / beta: bytes per second; 0 = times do not grow with bytes
};

struct TimedBytes {
  double bytes = 0, seconds = 0;
};

// Least squares of relative errors, so small and large messages count equally; latency is not
// negative. With a single size all time is latency.
[[nodiscard]] LinkFit fit_link(std::span<const TimedBytes> times);
// The same for a network, whose buffers take small messages faster than it carries large ones: no
// more bandwidth than the last, largest message had.
[[nodiscard]] LinkFit fit_network(std::span<const TimedBytes> times);

}  // namespace trireme::comm_bench
