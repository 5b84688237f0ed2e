// SPDX-License-Identifier: Apache-2.0
// A resolved config on a described machine: what each rank holds, how long a step takes, and
// whether it fits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/engine/memory_plan.h"
#include "launch/plan/step_plan.h"

namespace trireme {

struct LayoutPlan {
  Config config;  // resolved
  plan::StepEstimate step{};
  std::vector<StageMemory> stages{};  // the fullest first
  std::int64_t capacity = 0;          // of a text, where texts are continued; 0: it trains
};

// The memory of a rank by what it is for, framework first, in the order in which a run takes it.
struct MemoryLine {
  std::string_view name;
  std::uint64_t bytes = 0;
};
[[nodiscard]] std::vector<MemoryLine> memory_lines(const StageMemory& stage, DeviceType type,
                                                   const plan::Hardware& hardware);
[[nodiscard]] std::uint64_t total_of(std::span<const MemoryLine> lines);

// Raises ExitCode::config where the hardware cannot compute in the config's precision.
[[nodiscard]] LayoutPlan plan_layout(const Config& config, const plan::Hardware& hardware,
                                     StepPlanner& planner);
// The memory alone, the fullest stage first.
[[nodiscard]] std::vector<StageMemory> plan_memory_of_stages(const Config& config,
                                                             const plan::Hardware& hardware);
// Of a job that continues texts of `capacity` tokens: the memory alone. `config` is resolved for
// Purpose::generate.
[[nodiscard]] LayoutPlan plan_generation(const Config& config, std::int64_t capacity,
                                         const plan::Hardware& hardware);

// What is known of a step's speed beforehand.
struct PlannedStep {
  double flops_per_item = 0;  // plan::model_flops() by token or image
  // On the machine of parallel.hardware; nothing where the config names none, or one of other
  // devices.
  std::optional<double> seconds{};
  double peak_flops = 0;  // per second, of all ranks together; 0 = not known
};
// Raises ExitCode::config for a broken description.
[[nodiscard]] PlannedStep planned_step(const Config& config);

// Of the fullest rank.
[[nodiscard]] std::uint64_t memory_needed(const LayoutPlan& plan, const plan::Hardware& hardware);
[[nodiscard]] bool fits(const LayoutPlan& plan, const plan::Hardware& hardware);
// What of the fullest rank no longer fits, taking memory in the order of memory_lines(), or
// nothing.
[[nodiscard]] std::optional<MemoryLine> overflow(const LayoutPlan& plan,
                                                 const plan::Hardware& hardware);

// "1.25 GiB", "312.0 MiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// A hardware description as a job of `ranks` ranks on `nodes` nodes sees it; 0 nodes: as many as
// full ones are. Raises ExitCode::config where they do not share the ranks evenly.
[[nodiscard]] plan::Hardware on_nodes(plan::Hardware hardware, int ranks, int nodes);
// What resolve_config is told of a planned job: everything is in the build, a machine whose ranks
// do not share processor cores has GPUs, processors with a rate for bf16 compute in it.
[[nodiscard]] Environment planned_environment(int ranks, const plan::Hardware& hardware);
// The same without a description: as on this host, but that a config may ask for GPUs.
[[nodiscard]] Environment planned_environment(int ranks, const Config& given);

// Of the ranks of a described machine.
[[nodiscard]] DeviceType described_device(const plan::Hardware& hardware);
// Raises ExitCode::config where device.type asks for what the machine has not: another precision,
// other memory and other times would be planned than the machine would take.
void check_device_type(const Config& given, const plan::Hardware& hardware,
                       const Provenance& where);

}  // namespace trireme
