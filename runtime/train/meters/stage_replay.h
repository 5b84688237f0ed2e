// SPDX-License-Identifier: Apache-2.0
// A pipeline's step under other settings, with the times that its stages were measured to take.
// Pure functions; what is not known to fit is nothing.
#pragma once

#include <optional>
#include <span>

#include "runtime/parallel/schedule_timeline.h"
#include "runtime/parallel/stage_plan.h"

namespace trireme {

// Lengths of a step's pipeline in the unit of the costs; 0 where there is no such schedule. Costs
// are those of a stage that computes alone; `cores`: as many stages as could compute at that speed
// at once, those of the shape or fewer (schedule_timeline.h).

[[nodiscard]] double length_of_step(const ScheduleShape& shape, const Costs& costs, double cores);
// Under the zero-bubble schedule; `split`: with a backward in two parts.
[[nodiscard]] double with_zero_bubble(const ScheduleShape& shape, const Costs& split, double cores);
// With micro-batches of half the size, whose costs are `half`.
[[nodiscard]] double with_half_micro_batches(const ScheduleShape& shape, const Costs& half,
                                             double cores);
// With half as many stages, each of which does the work of two neighbours for half of the
// micro-batches, for there are twice as many pipelines, which share the cores.
[[nodiscard]] double with_half_the_stages(const ScheduleShape& shape, const Costs& costs,
                                          double cores);

// The costs of stages that are cut otherwise, by the FLOPs of their layers; nothing where the
// measured ones are off what the FLOPs of the present cut say by more than a quarter of a mean
// stage.
[[nodiscard]] std::optional<Costs> costs_of_cut(const Costs& costs,
                                                std::span<const LayerSummary> layers,
                                                const StagePlan& present, const StagePlan& other);

}  // namespace trireme
