// SPDX-License-Identifier: Apache-2.0
// What a schedule would take: replays the lists of all stages, event by event, against given costs
// on given cores and links. No devices.
#pragma once

#include <limits>

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

enum class LinkModel : std::uint8_t {
  channels,  // by the rules of schedule.h, one message after another in each
  unlimited  // every message is on its way at once; slots are taken to be free
};
// What the stages of one pipeline run on.
struct PipelineResources {
  // Cores that the stages share; a fraction where several pipelines share them. All computations
  // that are ready get equal shares of them (processor sharing, Kleinrock, 1967), none more than
  // one core.
  double cores = std::numeric_limits<double>::infinity();
  // Seconds until the scheduler gives a stage that waits the core of another that computes. What
  // arrives is noticed when a computation that has the core ends, so after the mean of them at
  // most, or when the scheduler ends its turn.
  double scheduling_delay = 0;
  LinkModel links = LinkModel::channels;
};

struct Span {
  Action action;
  double start = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<Span>> stages;  // computations in their order
  double makespan = 0;
  std::vector<double> busy;  // seconds in computations, per stage
  double bubble = 0;         // 1 - sum(busy) / (stages * makespan)
  // Per stage, the most (chunk, micro-batch) pairs between the start of their forward and the end
  // of their last use.
  std::vector<int> peak_in_flight;
  // Empty, or what every stage that cannot go on waits for; the rest then covers what ran.
  std::string deadlock;
};
[[nodiscard]] Timeline simulate(const Schedule& schedule, const Costs& costs,
                                const PipelineResources& resources = {});
[[nodiscard]] Timeline simulate(const ScheduleShape& shape, const Costs& costs,
                                const PipelineResources& resources = {});

}  // namespace trireme
