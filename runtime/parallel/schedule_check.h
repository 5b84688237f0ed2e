// SPDX-License-Identifier: Apache-2.0
// Proves a schedule without devices.
#pragma once

#include "runtime/parallel/schedule.h"

namespace trireme {

// The most (chunk, micro-batch) pairs that `stage` may hold between forward and last use: the
// memory bound of the schedule kind.
[[nodiscard]] int in_flight_bound(const ScheduleShape& shape, int stage);

// The first of these rules that is broken, in words; nothing if all hold.
// - every stage lists exactly its actions, each once;
// - each action follows what it reads; micro-batches pass a chunk in order 0, 1, ... in both
//   directions, so gradient sums have one order; a receive needs a free slot;
// - no more in flight than in_flight_bound, and no more than receives_ahead posted ahead;
// - both ends of every channel list the same transfers in the same order;
// - no deadlock even if sends wait for their receives.
[[nodiscard]] std::optional<std::string> check_schedule(const Schedule& schedule);
[[nodiscard]] std::optional<std::string> check_schedule(const ScheduleShape& shape);

}  // namespace trireme
