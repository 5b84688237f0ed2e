// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/layout_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/device/cpu/cpu_features.h"
#include "runtime/device/device.h"

namespace trireme {

plan::NcclMemory nccl_memory_on(const LayoutPlan& plan, const plan::Hardware& hardware) {
  if (hardware.name.empty()) return {};
  const bool hopper = hardware.flops(Precision::fp8) > 0;  // the first with NVLink SHARP
  return nccl_memory_of(plan.config,
                        {.links = hardware.links,
                         .nvls = hopper && plan.config.reproducibility == Reproducibility::fast},
                        plan.capacity == 0);
}

std::uint64_t host_memory_of_rank(const StageMemory& stage, const LayoutPlan& plan,
                                  const plan::Hardware& hardware) {
  const bool several_nodes = mesh_shape(plan.config.parallel).size() > hardware.node.ranks;
  return total_of(stage.held.host) + nccl_memory_on(plan, hardware).host +
         stage.held.memory_checkpoints(several_nodes);
}

std::uint64_t host_memory_of_node(const LayoutPlan& plan, const plan::Hardware& hardware) {
  if (device_type(plan.config) == DeviceType::cpu) return 0;
  const MeshShape mesh = mesh_shape(plan.config.parallel);
  std::vector<std::uint64_t> nodes(
      static_cast<std::size_t>((mesh.size() - 1) / hardware.node.ranks + 1));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const auto stage =
        std::ranges::find(plan.stages, coordinates_of(mesh, rank).pipeline, &StageMemory::stage);
    nodes[static_cast<std::size_t>(rank / hardware.node.ranks)] +=
        host_memory_of_rank(*stage, plan, hardware);
  }
  return *std::ranges::max_element(nodes);
}

std::vector<MemoryLine> memory_lines(const StageMemory& stage, const LayoutPlan& plan,
                                     const plan::Hardware& hardware) {
  const BytesByRole held = stage.held.on_device(device_type(plan.config));
  const auto of = [&](MemoryRole role) { return held[static_cast<std::size_t>(role)]; };
  return {{"framework", static_cast<std::uint64_t>(hardware.device.framework_bytes)},
          {"NCCL", nccl_memory_on(plan, hardware).device},
          {"weights", of(MemoryRole::parameters)},
          {"gradients", of(MemoryRole::gradients)},
          {"optimizer", of(MemoryRole::optimizer)},
          {"activations", of(MemoryRole::activations) - stage.cache},
          {"cache", stage.cache},
          {"staging", of(MemoryRole::staging)},
          {"other", of(MemoryRole::other)},
          {"workspace", of(MemoryRole::workspace)},
          {"communication", stage.communication}};
}

std::uint64_t total_of(std::span<const MemoryLine> lines) {
  return std::accumulate(
      lines.begin(), lines.end(), std::uint64_t{0},
      [](std::uint64_t sum, const MemoryLine& line) { return sum + line.bytes; });
}

namespace {

// What all stages need alike does not count.
std::vector<StageMemory> fullest_first(std::vector<StageMemory> stages, const Config& config) {
  std::ranges::stable_sort(stages, std::ranges::greater(), [&](const StageMemory& stage) {
    return total_of(stage.held.on_device(device_type(config))) + stage.communication;
  });
  return stages;
}

}  // namespace

std::vector<StageMemory> plan_memory_of_stages(const Config& config) {
  return fullest_first(plan_stages_memory(config), config);
}

LayoutPlan plan_generation(const Config& config, std::int64_t capacity) {
  return {.config = config,
          .stages = fullest_first(plan_generation_memory(config, capacity), config),
          .capacity = capacity};
}

LayoutPlan plan_layout(const Config& config, const plan::Hardware& hardware, StepPlanner& planner) {
  return {.config = config,
          .step = plan::estimate_step(planner.input(config), hardware),
          .stages = plan_memory_of_stages(config)};
}

PlannedStep planned_step(const Config& config) {
  std::optional<plan::Hardware> hardware;
  if (!config.parallel.hardware.empty()) hardware = plan::load_hardware(config.parallel.hardware);
  if (hardware && described_device(*hardware) != device_type(config)) hardware.reset();
  const plan::StepInput input =
      hardware ? StepPlanner().input(config) : StepPlanner().declared(config);
  const auto items = static_cast<double>(config.train.global_batch * input.items_per_sample);
  PlannedStep planned{.flops_per_item = plan::model_flops(input) / items};
  if (hardware) {
    planned.seconds = plan::estimate_step(input, *hardware).total;
    planned.peak_flops = input.mesh.size() * hardware->flops(input.precision);
  }
  return planned;
}

std::uint64_t memory_needed(const LayoutPlan& plan, const plan::Hardware& hardware) {
  return total_of(memory_lines(plan.stages.front(), plan, hardware));
}

bool fits(const LayoutPlan& plan, const plan::Hardware& hardware) {
  const double node = hardware.node.memory_bytes;
  return static_cast<double>(memory_needed(plan, hardware)) <= hardware.device.memory_bytes &&
         (node == 0 || static_cast<double>(host_memory_of_node(plan, hardware)) <= node);
}

std::optional<MemoryLine> overflow(const LayoutPlan& plan, const plan::Hardware& hardware) {
  std::uint64_t taken = 0;
  for (const MemoryLine& line : memory_lines(plan.stages.front(), plan, hardware)) {
    taken += line.bytes;
    if (static_cast<double>(taken) > hardware.device.memory_bytes) return line;
  }
  return std::nullopt;
}

std::string size_text(std::uint64_t bytes) {
  constexpr double mib = 1 << 20, gib = 1 << 30;
  const auto value = static_cast<double>(bytes);
  return value < gib ? fmt::format("{:.1f} MiB", value / mib)
                     : fmt::format("{:.2f} GiB", value / gib);
}

plan::Hardware on_nodes(plan::Hardware hardware, int ranks, int nodes) {
  if (nodes == 0) return hardware;
  if (ranks % nodes != 0 || ranks / nodes > hardware.node.ranks) {
    int nearest = std::max(nodes, (ranks + hardware.node.ranks - 1) / hardware.node.ranks);
    nearest = std::min(nearest, ranks);
    while (ranks % nearest != 0)
      ++nearest;
    fail(ExitCode::config,
         "--nodes: {} nodes of {} ({} ranks each) cannot share {} ranks evenly; use {}", nodes,
         hardware.name, hardware.node.ranks, ranks, nearest);
  }
  hardware.node.ranks = ranks / nodes;
  hardware.links.domain = std::min(hardware.links.domain, hardware.node.ranks);
  return hardware;
}

Environment planned_environment(int ranks, const plan::Hardware& hardware) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank)
    hosts.push_back(rank / hardware.node.ranks);
  return {.ranks = ranks,
          .cuda_in_build = true,
          .gpus = described_device(hardware) == DeviceType::cuda ? 1 : 0,
          .native_bf16 = hardware.flops(Precision::bf16) > 0,
          .capability = hardware.device.compute_capability,
          .hosts = std::move(hosts)};
}

Environment planned_environment(int ranks) {
  const bool cuda = Device::in_build(DeviceType::cuda);
  return {.ranks = ranks, .cuda_in_build = cuda, .gpus = cuda ? ranks : 0, .native_bf16 = true};
}

Environment planned_environment(int ranks, const Config& given) {
  const bool cuda = given.device.type == DeviceChoice::cuda || Device::count(DeviceType::cuda) > 0;
  return {
      .ranks = ranks, .cuda_in_build = true, .gpus = cuda ? 1 : 0, .native_bf16 = cpu_has_bf16()};
}

DeviceType described_device(const plan::Hardware& hardware) {
  return hardware.node.cores == 0 ? DeviceType::cuda : DeviceType::cpu;
}

void check_device_type(const Config& given, const plan::Hardware& hardware,
                       const Provenance& where) {
  const std::string_view described = name_of(described_device(hardware));
  if (given.device.type == DeviceChoice::automatic || name_of(given.device.type) == described)
    return;
  fail(ExitCode::config,
       "{}: {}, but {} is a machine of device.type: {}, with other memory, precision and times; "
       "use auto or {}, or name a machine of device.type: {}",
       where.describe("device.type"), name_of(given.device.type), hardware.name, described,
       described, name_of(given.device.type));
}

}  // namespace trireme
