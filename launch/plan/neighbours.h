// SPDX-License-Identifier: Apache-2.0
// What other settings would have gained in a run that has ended: the planner, fitted to the run's
// own times, estimates its step with one setting changed.
#pragma once

#include <vector>

#include "launch/bench/model/measure.h"
#include "runtime/config/config.h"
#include "runtime/telemetry/verdict.h"

namespace trireme {

// What the times of one run do not tell apart, measured beside it.
struct MachineRates {
  model_bench::MatmulRates matmuls{};
  double launch = 0;              // seconds of an op that has one element to work on
  plan::Link tensor{}, others{};  // between ranks of a tensor group, between all others
};

// The best of each kind of setting, by its gain in the run's wall time: another pipeline schedule
// or cut, half the stages or tensor ranks, micro-batches of half or twice the size, larger buckets.
// What a part of the step saves is a share of what it took, or less; what gains 5 % or less is
// within the planner's error and left out, as is what the config's rules refuse. Of a resolved
// config, with rank 0's summary; nothing where ranks share cores, which the planner knows too
// little of, or the global batch grew, since steps then differ.
[[nodiscard]] std::vector<Trial> neighbour_trials(const Config& config, const RunFacts& facts,
                                                  const RunSummary& summary,
                                                  const MachineRates& machine);

}  // namespace trireme
