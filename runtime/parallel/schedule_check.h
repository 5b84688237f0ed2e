// SPDX-License-Identifier: Apache-2.0
// Proves a schedule without devices.
#pragma once

#include "runtime/parallel/schedule.h"

namespace trireme {

// The most (chunk, micro-batch) pairs that `stage` may hold between forward and last use: what the
// kind of schedule promises about memory.
[[nodiscard]] int in_flight_bound(const ScheduleShape& shape, int stage);

// The first of these that does not hold, in words; nothing when all do.
//  - every stage lists exactly its actions, each once;
//  - each after what it reads; micro-batches pass a chunk in order 0, 1, ... in both directions, so
//    that gradient sums have one order; a receive only into a slot that is free;
//  - no more in flight than in_flight_bound, and no more than receives_ahead posted ahead;
//  - both ends of every channel name the same transfers in the same order;
//  - no deadlock, though sends wait for their receives.
[[nodiscard]] std::optional<std::string> check_schedule(const Schedule& schedule);
[[nodiscard]] std::optional<std::string> check_schedule(const ScheduleShape& shape);

}  // namespace trireme
