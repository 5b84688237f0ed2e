// SPDX-License-Identifier: Apache-2.0
// The order of a stage's computations, without transfers; private to this module.
#pragma once

#include "runtime/parallel/schedule.h"

namespace trireme {

[[nodiscard]] std::vector<Action> compute_order(const ScheduleShape& shape, int stage);
[[nodiscard]] std::vector<Action> zero_bubble_order(int stages, int micro_batches, int stage);

}  // namespace trireme
