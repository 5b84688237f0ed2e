// SPDX-License-Identifier: Apache-2.0
// The predicted time of a schedule: an event simulation of all stages with given costs, cores and
// links. No devices.
#pragma once

#include <limits>

#include "runtime/parallel/schedule.h"

namespace trireme {

// Seconds for one micro-batch, per virtual stage.
struct Costs {
  std::vector<double> forward;
  std::vector<double> backward;  // the part that computes the input's gradient
  std::vector<double> backward_weight;
  double transfer = 0;  // of one activation or gradient to the neighbour stage
  friend bool operator==(const Costs&, const Costs&) = default;
};
// The same costs for every virtual stage.
[[nodiscard]] Costs uniform_costs(const ScheduleShape& shape, double forward, double backward,
                                  double backward_weight, double transfer = 0);
// In schedules that do not split it, a backward takes both parts.
[[nodiscard]] double seconds_of(const ScheduleShape& shape, const Costs& costs, int stage,
                                const Action& action);

enum class LinkModel : std::uint8_t {
  channels,  // by the rules of schedule.h, one message at a time in each
  unlimited  // messages never wait for each other or for slots
};
// The hardware of one pipeline.
struct PipelineResources {
  // Cores that the stages share; fractional if several pipelines share them. All ready computations
  // get equal shares (processor sharing, Kleinrock, 1967), at most one core each.
  double cores = std::numeric_limits<double>::infinity();
  // Seconds until the scheduler gives the core of a computing stage to a waiting one. An arrival is
  // noticed when the running computation ends, on average at most one mean computation later, or
  // when its time slice ends.
  double scheduling_delay = 0;
  LinkModel links = LinkModel::channels;
  friend bool operator==(const PipelineResources&, const PipelineResources&) = default;
};

struct Span {
  Action action;
  double start = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<Span>> stages;  // computations in order
  double makespan = 0;
  std::vector<double> busy;  // seconds in computations, per stage
  double bubble = 0;         // 1 - sum(busy) / (stages * makespan)
  // Per stage, the most (chunk, micro-batch) pairs between start of forward and end of last use.
  std::vector<int> peak_in_flight;
  // Empty, or what every blocked stage waits for; the rest then covers what ran.
  std::string deadlock;
};
[[nodiscard]] Timeline simulate(const Schedule& schedule, const Costs& costs,
                                const PipelineResources& resources = {});
[[nodiscard]] Timeline simulate(const ScheduleShape& shape, const Costs& costs,
                                const PipelineResources& resources = {});

}  // namespace trireme
