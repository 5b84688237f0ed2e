// SPDX-License-Identifier: Apache-2.0
// Gains of other settings in a finished run: the planner, fitted to the run's times, estimates its
// step with one setting changed.
#pragma once

#include <vector>

#include "launch/bench/model/measure.h"
#include "runtime/config/config.h"
#include "runtime/telemetry/bottleneck/bottleneck.h"

namespace trireme {

// Rates that one run's times do not determine, measured separately.
struct MachineRates {
  model_bench::MatmulRates matmuls{};
  double launch = 0;              // seconds of an op that has one element to work on
  plan::Link tensor{}, others{};  // between ranks of a tensor group, between all others
};

// The best setting of each kind, by its gain in the run's wall time: another pipeline schedule or
// cut, half the stages or tensor ranks, micro-batches of half or twice the size, larger buckets.
// The saving in a part of the step is a share of its time. Gains up to 5 % are within the planner's
// error and left out, as are settings that the config's rules refuse. Takes a resolved config and
// rank 0's summary; empty if ranks share cores, which the planner models poorly, or if the global
// batch grew, since steps then differ.
[[nodiscard]] std::vector<Trial> neighbour_trials(const Config& config, const RunFacts& facts,
                                                  const RunSummary& summary,
                                                  const MachineRates& machine);

}  // namespace trireme
