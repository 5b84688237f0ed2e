// SPDX-License-Identifier: Apache-2.0
// A pipeline schedule as text for people.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/parallel/schedule.h"

namespace trireme {

struct ViewOptions {
  std::size_t width = 0;  // columns; the table is cut there. 0 = as wide as it gets
  bool colour = false;
};

// A table with a row per stage and a column per unit of time, drawn to scale (the forward of one
// chunk is a unit, a backward two, of which zero-bubble counts one as the weight's; transfers take
// none), then bubble, makespan, micro-batches in flight and slots.
[[nodiscard]] std::string describe_schedule(const ScheduleShape& shape, const ViewOptions& options);

}  // namespace trireme
