// SPDX-License-Identifier: Apache-2.0
// Pipelines whose stages share processor cores. Pure functions.
#pragma once

#include "runtime/parallel/schedule_timeline.h"

namespace trireme::plan {

// What the stages of one pipeline run on.
struct SharedCores {
  double cores = 1;  // of this pipeline; a fraction where several pipelines share them
  // Seconds until the scheduler gives a stage that waits the core of another that computes.
  double scheduling_delay = 0;
};

// simulate() of schedule_timeline.h with fewer cores than stages: all computations that are ready
// get equal shares of the cores (processor sharing, Kleinrock, 1967), none more than one core. What
// arrives is noticed when a computation that has the core ends, so after the mean of them at most,
// or when the scheduler ends its turn. With a core per stage and no delay the same times. Slots are
// taken to be free.
[[nodiscard]] Timeline simulate_on(const SharedCores& machine, const ScheduleShape& shape,
                                   const Costs& costs);

}  // namespace trireme::plan
