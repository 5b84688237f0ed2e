// SPDX-License-Identifier: Apache-2.0
// What a schedule would take: replays the lists of all stages against given costs, with the
// channels' rules (schedule.h). No devices.
#pragma once

#include "runtime/parallel/schedule.h"

namespace trireme {

// Seconds for one micro-batch, per virtual stage.
struct Costs {
  std::vector<double> forward;
  std::vector<double> backward;  // the part that gives the gradient of the input
  std::vector<double> backward_weight;
  double transfer = 0;  // of one activation or gradient to the neighbour
};
// Every virtual stage alike.
[[nodiscard]] Costs uniform_costs(const ScheduleShape& shape, double forward, double backward,
                                  double backward_weight, double transfer = 0);
// Under schedules that do not split it, a backward takes both of its parts.
[[nodiscard]] double seconds_of(const ScheduleShape& shape, const Costs& costs, int stage,
                                const Action& action);

struct Span {
  Action action;
  double start = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<Span>> stages;  // computations in their order
  double makespan = 0;
  std::vector<double> busy;  // seconds of computation per stage
  double bubble = 0;         // 1 - sum(busy) / (stages * makespan)
  // Per stage, the most (chunk, micro-batch) pairs between the start of their forward and the end
  // of their last use.
  std::vector<int> peak_in_flight;
  // Empty, or what every stage that cannot go on waits for; the rest then covers what ran.
  std::string deadlock;
};
[[nodiscard]] Timeline simulate(const Schedule& schedule, const Costs& costs);
[[nodiscard]] Timeline simulate(const ScheduleShape& shape, const Costs& costs);

}  // namespace trireme
