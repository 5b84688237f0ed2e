// SPDX-License-Identifier: Apache-2.0
// Settings that would have made a finished run faster: loader settings from its readers' figures,
// layouts from the planner (launch/plan/neighbours.h).
#pragma once

#include <vector>

#include "launch/engine/session.h"
#include "runtime/nn/batch_source.h"
#include "runtime/telemetry/verdict.h"

namespace trireme {

// Rank 0's has the trials; it alone reads `summary`, of the steps of all ranks with the wall time,
// and `reading`, of its loader. Where messages or a bubble took 2 % of the time, links and matmuls
// are measured first, with nothing of the run in flight. Collective; blocks the host.
[[nodiscard]] std::vector<Trial> advice_of_run(Session& session, const RunFacts& facts,
                                               const RunSummary& summary, const ReadWork& reading);

}  // namespace trireme
