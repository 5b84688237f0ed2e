// SPDX-License-Identifier: Apache-2.0
// A pipeline schedule as text for people.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/parallel/schedule.h"

namespace trireme {

struct ViewOptions {
  std::size_t width = 0;  // columns; cuts the table. 0 = unlimited
  bool colour = false;
};

// A table with a row per stage and a column per unit of time, to scale (a chunk's forward is one
// unit, a backward two; in zero-bubble schedules one of them is for the weights; transfers take
// none), then bubble, makespan, micro-batches in flight and slots.
[[nodiscard]] std::string describe_schedule(const ScheduleShape& shape, const ViewOptions& options);

}  // namespace trireme
