// SPDX-License-Identifier: Apache-2.0
// A resolved config on a described machine: each rank's memory, the time of a step, and whether it
// fits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/engine/memory_fit.h"
#include "launch/plan/step_plan.h"

namespace trireme {

struct LayoutPlan {
  Config config;  // resolved
  plan::StepEstimate step{};
  std::vector<StageMemory> stages{};  // the fullest first
  std::int64_t capacity = 0;          // of a text, for generation; 0: training
};

// A rank's memory by use, framework first, in the order of allocation.
struct MemoryLine {
  std::string_view name;
  std::uint64_t bytes = 0;
};
[[nodiscard]] std::vector<MemoryLine> memory_lines(const StageMemory& stage, const LayoutPlan& plan,
                                                   const plan::Hardware& hardware);
// What NCCL allocates on a rank; nothing without a described machine.
[[nodiscard]] plan::NcclMemory nccl_memory_on(const LayoutPlan& plan,
                                              const plan::Hardware& hardware);
// Page-locked memory beside GPUs, and in-memory checkpoints: of a rank of this stage, and of the
// ranks of the node that needs most.
[[nodiscard]] std::uint64_t host_memory_of_rank(const StageMemory& stage, const LayoutPlan& plan,
                                                const plan::Hardware& hardware);
[[nodiscard]] std::uint64_t host_memory_of_node(const LayoutPlan& plan,
                                                const plan::Hardware& hardware);
[[nodiscard]] std::uint64_t total_of(std::span<const MemoryLine> lines);

// Raises ExitCode::config if the hardware does not support the config's precision.
[[nodiscard]] LayoutPlan plan_layout(const Config& config, const plan::Hardware& hardware,
                                     StepPlanner& planner);
// Only the memory, fullest stage first.
[[nodiscard]] std::vector<StageMemory> plan_memory_of_stages(const Config& config);
// For generation with texts of `capacity` tokens: only the memory. `config` is resolved for
// Purpose::generate.
[[nodiscard]] LayoutPlan plan_generation(const Config& config, std::int64_t capacity);

// The expected speed of a step.
struct PlannedStep {
  double flops_per_item = 0;  // plan::model_flops() per token or image
  // On the machine of parallel.hardware; nothing if the config names none, or one with other
  // devices.
  std::optional<double> seconds{};
  double peak_flops = 0;  // per second, of all ranks; 0 = unknown
};
// Raises ExitCode::config for an invalid hardware file.
[[nodiscard]] PlannedStep planned_step(const Config& config);

// For the fullest rank.
[[nodiscard]] std::uint64_t memory_needed(const LayoutPlan& plan, const plan::Hardware& hardware);
// Whether the devices and the nodes hold it.
[[nodiscard]] bool fits(const LayoutPlan& plan, const plan::Hardware& hardware);
// The first use that does not fit on the fullest rank, in the order of memory_lines(), or nothing.
[[nodiscard]] std::optional<MemoryLine> overflow(const LayoutPlan& plan,
                                                 const plan::Hardware& hardware);

// "1.25 GiB", "312.0 MiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

// A hardware description for a job of `ranks` ranks on `nodes` nodes; 0 nodes: as many as are full.
// Raises ExitCode::config if nodes do not share the ranks evenly.
[[nodiscard]] plan::Hardware on_nodes(plan::Hardware hardware, int ranks, int nodes);
// The environment of a planned job for resolve_config: the build has everything, a machine whose
// ranks do not share cores has GPUs, and processors with a bf16 rate compute in bf16.
[[nodiscard]] Environment planned_environment(int ranks, const plan::Hardware& hardware);
// The same without a description: as on this host, but a config may request GPUs.
[[nodiscard]] Environment planned_environment(int ranks, const Config& given);
// For jobs of this program on other hosts: a CUDA build finds GPUs there.
[[nodiscard]] Environment planned_environment(int ranks);

// The device of a described machine's ranks.
[[nodiscard]] DeviceType described_device(const plan::Hardware& hardware);
// Raises ExitCode::config if device.type requests a device that the machine lacks: precision,
// memory and times would then be planned for another one.
void check_device_type(const Config& given, const plan::Hardware& hardware,
                       const Provenance& where);

}  // namespace trireme
