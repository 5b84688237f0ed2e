// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/memory_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "launch/engine/engine.h"
#include "launch/engine/options.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// CudaStream::workspace_bytes, which is unknown without CUDA: 32 MiB for the matmuls of the single
// compute stream.
constexpr std::uint64_t matmul_workspace_bytes = std::uint64_t{32} << 20;

// See "Scratch memory" in runtime/comm/README.md: the parts of all peers, for a gradient bucket or
// a tensor-parallel sum, in rounds of at most 32 MiB.
std::uint64_t communication_scratch(const Session& session) {
  constexpr std::int64_t round_bytes = std::int64_t{32} << 20;
  const bool by_tree = session.device->type() == DeviceType::cpu ||
                       session.config.reproducibility == Reproducibility::layout;
  if (!by_tree) return 0;
  const auto parts = [&](std::int64_t elements, std::int64_t ranks) {
    const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(float));
    return static_cast<std::uint64_t>(std::min(bytes, round_bytes) * (ranks - 1) / ranks);
  };
  const MeshShape& mesh = session.mesh.shape();
  std::int64_t bucket = 0, experts = 0, output = 0, context = 0;
  const bool reduces_weights = reduced_dtype(session.config) == DType::f32;
  for (const Bucket& each : session.model->params().layout().buckets()) {
    std::int64_t& largest = each.expert && mesh.expert > 1 ? experts : bucket;
    if (each.kind == ParamKind::statistic || (each.kind == ParamKind::weight && reduces_weights))
      largest = std::max(largest, each.count);
  }
  for (const LayerSummary& layer : session.layers) {
    output = std::max(output, layer.held);
    const ContextMessages& sent = layer.traffic.context;
    context = std::max(context, static_cast<std::int64_t>(sent.reduced / sent.groups));
  }
  const std::int64_t groups = mesh.data / mesh.shard, shard = mesh.expert_shard();
  return parts(bucket, mesh.shard) + parts(bucket / mesh.shard, groups) + parts(experts, shard) +
         parts(experts / shard, mesh.data / mesh.expert / shard) +
         parts(context / static_cast<std::int64_t>(sizeof(float)), mesh.context) +
         parts(output * (session.config.parallel.sequence ? mesh.tensor : 1), mesh.tensor);
}

std::string kind_of(const LayerSummary& layer) {
  return layer.name.substr(0, layer.name.find('.'));
}

std::uint64_t kept_without_recompute(const Session& session, std::span<const ChunkSpan> chunks) {
  BuildOptions options = session.build_options(/*training=*/true);
  options.recompute = Recompute::none;
  const auto layers = summarize(session.what.chain, session.device->type(), options);
  const auto blocks = static_cast<std::uint64_t>(options.context.local());
  std::uint64_t kept = 0;
  for (const ChunkSpan& chunk : chunks) {
    for (int i = chunk.first; i < chunk.last; ++i) {
      kept += layers[static_cast<std::size_t>(i)].kept_bytes *
              static_cast<std::uint64_t>(chunk.slots) * blocks;
    }
  }
  return kept;
}

// Adds the back end's memory to the engine's buffers.
HeldMemory held_memory_of(const Engine& engine) {
  HeldMemory held = engine.memory();
  if (engine.session().device->type() == DeviceType::cuda)
    held.device[static_cast<std::size_t>(MemoryRole::workspace)] += matmul_workspace_bytes;
  return held;
}

void describe_activations(const Session& session, StageMemory& memory, bool training) {
  const auto chunks = session.stages.chunks(session.pipeline, memory.stage, training);
  const auto blocks = static_cast<std::uint64_t>(local_blocks(session.config));
  std::uint64_t of_layers = 0;
  for (const ChunkSpan& chunk : chunks) {
    for (int i = chunk.first; i < chunk.last; ++i) {
      const LayerSummary& layer = session.layers[static_cast<std::size_t>(i)];
      const std::string kind = kind_of(layer);
      auto share = std::ranges::find(memory.kept, kind, &ActivationShare::kind);
      if (share == memory.kept.end()) share = memory.kept.insert(share, {.kind = kind});
      const std::uint64_t bytes =
          layer.kept_bytes * static_cast<std::uint64_t>(chunk.slots) * blocks;
      ++share->layers;
      share->bytes += bytes;
      of_layers += bytes;
    }
  }
  const ActivationArenas all = session.model->activation_arenas();
  memory.kept_between = all.kept - std::min<std::uint64_t>(all.kept, of_layers);
  memory.scratch = all.scratch + all.workspace;
  if (training && session.config.train.recompute != Recompute::none)
    memory.recompute_saves = kept_without_recompute(session, chunks) - of_layers;
}

// `plan` fills in the memory of a stage's first rank.
std::vector<StageMemory> each_stage(const Config& config,
                                    const std::function<void(int rank, StageMemory&)>& plan) {
  const MeshShape shape = mesh_shape(config.parallel);
  std::vector<StageMemory> stages;
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    StageMemory memory{.stage = stage, .ranks = shape.data * shape.tensor};
    plan(rank_of(shape, {.pipeline = stage}), memory);
    stages.push_back(std::move(memory));
  }
  return stages;
}

}  // namespace

BytesByRole HeldMemory::on_device(DeviceType type) const {
  BytesByRole sum = device;
  for (std::size_t i = 0; type == DeviceType::cpu && i < memory_roles; ++i)
    sum[i] += host[i];
  return sum;
}

std::uint64_t total_of(const BytesByRole& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

HeldMemory held_memory(const Device& device) {
  HeldMemory held;
  std::ranges::copy(device.memory_use(MemoryKind::device).by_role, held.device.begin());
  std::ranges::copy(device.memory_use(MemoryKind::host).by_role, held.host.begin());
  return held;
}

HeldMemory plan_memory(const Config& config, int rank, const OwnModel* own) {
  EngineParts parts;
  if (own != nullptr) parts.model = *own;
  Engine engine(dry_resources(config, rank), config, Purpose::train, std::move(parts));
  engine.begin();
  return held_memory_of(engine);
}

BytesByRole log_memory_plan(Session& session, const HeldMemory& planned) {
  const DeviceType type = session.device->type();
  const BytesByRole predicted = planned.on_device(type);
  const BytesByRole measured = held_memory(*session.device).on_device(type);
  constexpr std::size_t each = memory_roles + 1;
  std::array<std::int64_t, 2 * each> values{};
  const auto put = [&](const BytesByRole& bytes, std::size_t at) {
    std::ranges::copy(bytes, values.begin() + static_cast<std::ptrdiff_t>(at));
    values[at + memory_roles] = static_cast<std::int64_t>(total_of(bytes));
  };
  put(predicted, 0);
  put(measured, each);
  values = largest_of_any_rank(*session.world, values);
  if (session.world->rank() != 0) return {};
  const auto pair = [&](std::size_t i) {
    return fmt::format("{:.3f} / {:.3f} MiB", static_cast<double>(values[i]) / (1 << 20),
                       static_cast<double>(values[each + i]) / (1 << 20));
  };
  std::string parts;
  for (std::size_t i = 0; i < memory_roles; ++i) {
    if (values[i] + values[each + i] > 0)
      parts += fmt::format(", {} {}", name_of(static_cast<MemoryRole>(i)), pair(i));
  }
  log::get("train").debug("buffers per rank at most, predicted / measured: {}{}",
                          pair(memory_roles), parts);
  BytesByRole held{};
  for (std::size_t i = 0; i < memory_roles; ++i)
    held[i] = static_cast<std::uint64_t>(values[each + i]);
  return held;
}

std::vector<StageMemory> plan_stages_memory(const Config& config) {
  return each_stage(config, [&](int rank, StageMemory& memory) {
    Engine engine(dry_resources(config, rank), config);
    engine.begin();
    memory.held = held_memory_of(engine);
    memory.communication = communication_scratch(engine.session());
    memory.groups = dry_groups(*engine.session().world);
    describe_activations(engine.session(), memory, /*training=*/true);
  });
}

std::vector<StageMemory> plan_generation_memory(const Config& config, std::int64_t capacity) {
  return each_stage(config, [&](int rank, StageMemory& memory) {
    Engine engine(dry_resources(config, rank), config, Purpose::generate,
                  {.text_capacity = capacity});
    const TextGenerator generator = engine.generator();
    memory.held = held_memory_of(engine);
    memory.cache = engine.session().model->cache_bytes();
    memory.communication = communication_scratch(engine.session());
    describe_activations(engine.session(), memory, /*training=*/false);
  });
}

}  // namespace trireme
