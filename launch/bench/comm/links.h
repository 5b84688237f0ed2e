// SPDX-License-Identifier: Apache-2.0
// The planner's links (runtime/plan/hardware.h) from measurements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/bench/comm/measure.h"
#include "runtime/plan/hardware.h"

namespace trireme::comm_bench {

// The link with which the planner's all-reduce of `ranks` (plan::seconds_of) takes the fitted time:
// seconds per message of 2 log2(ranks), and the bus bandwidth.
[[nodiscard]] plan::Link link_of_all_reduce(const LinkFit& fit, int ranks);

// The slowest link over all-reduces of 256 bytes to 4 MiB on every rank's `group` of one kind; its
// bandwidth is 0 if large ones took no longer than small ones. Collective over `world`; blocks the
// host.
[[nodiscard]] plan::Link all_reduce_link(Communicator& group, Communicator& world, Device& device,
                                         const MeasureOptions& options);

struct MeasuredLinks {
  int ranks_per_host = 1;               // at most
  std::optional<plan::Link> inside{};   // one host with several ranks, the slowest of such
  std::optional<plan::Link> between{};  // the first ranks of several hosts
};

// How the planner's links are measured on `device`. Streams of a GPU run ahead of the host; on a
// CPU the work between two collectives waits for the first.
[[nodiscard]] MeasureOptions link_options(const Device& device, int repeats);

// Measures all-reduces among the ranks of each host, then among the hosts' first ranks; the same
// result on all ranks. Collective; blocks the host.
[[nodiscard]] MeasuredLinks measure_links(Communicator& world, Device& device);

// Replaces the links of the hardware file by the measured ones; others stay. Domains become hosts:
// node.ranks of one, or the number of participants if larger. Comments of the file are lost. Raises
// ExitCode::config if the file is missing or invalid.
void update_hardware_file(const std::string& path, const MeasuredLinks& links);

}  // namespace trireme::comm_bench
