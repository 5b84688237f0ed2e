// SPDX-License-Identifier: Apache-2.0
// Computes a run's memory from its config alone: builds the engine on a dry device, which only
// counts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/engine/session.h"
#include "runtime/comm/dry.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

// Replaces each value by its maximum over the ranks. Collective.
template <std::size_t count>
[[nodiscard]] std::array<std::int64_t, count> largest_of_any_rank(
    Communicator& world, std::array<std::int64_t, count> values) {
  const Tensor tensor{reinterpret_cast<std::byte*>(values.data()), DType::i64,
                      Shape{static_cast<std::int64_t>(count)}};
  const HostStream stream;
  world.all_reduce(*stream, tensor, tensor, ReduceOp::max);
  return values;
}

using BytesByRole = std::array<std::uint64_t, memory_roles>;

// What live Buffers hold. On the CPU both kinds are the host's memory.
struct HeldMemory {
  BytesByRole device{}, host{};
  // This rank's part of a checkpoint in the memory of the hosts, in no Buffer; only planned.
  std::uint64_t memory_checkpoint = 0;
  // The part that must fit into the device's memory.
  [[nodiscard]] BytesByRole on_device(DeviceType type) const;
  // What these take of a host for each of its ranks while one is written beside the last: with
  // several hosts each also keeps those of another (checkpoint/memory/memory_store.h).
  [[nodiscard]] std::uint64_t memory_checkpoints(bool several_hosts) const {
    return (several_hosts ? 4 : 2) * memory_checkpoint;
  }
};
[[nodiscard]] std::uint64_t total_of(const BytesByRole& bytes);
[[nodiscard]] HeldMemory held_memory(const Device& device);

// What a rank holds while it trains. `config` is resolved, for mesh_shape(config.parallel).size()
// ranks. Takes milliseconds for any model size.
[[nodiscard]] HeldMemory plan_memory(const Config& config, int rank, const OwnModel* own = nullptr);
// On the rank that holds most, logs the plan beside what the session holds. Collective. Returns
// what is held, on rank 0.
BytesByRole log_memory_plan(Session& session, const HeldMemory& planned);

// Activations of layers that are alike except for their number.
struct ActivationShare {
  std::string kind;         // "blocks"
  int layers = 0;           // of this kind, on this rank
  std::uint64_t bytes = 0;  // kept for all micro-batches in flight
};

// What the first rank of a pipeline stage holds; the stage's other ranks hold no more.
struct StageMemory {
  int stage = 0;
  int ranks = 1;
  HeldMemory held{};
  std::uint64_t cache = 0;  // part of `held` activations: the key-value cache for generation
  // Not in Buffers: what tree reductions of our own collect from peers. NCCL's memory counts as
  // framework.
  std::uint64_t communication = 0;
  std::vector<ActivationShare> kept{};
  std::uint64_t kept_between = 0;  // kept layer outputs, and gradients at the stage's ends
  std::uint64_t scratch = 0;       // for one layer at a time, with its ops
  // What more would be kept without recomputation.
  std::uint64_t recompute_saves = 0;
  std::vector<DryGroup> groups{};  // that the rank makes
};

// One per pipeline stage.
[[nodiscard]] std::vector<StageMemory> plan_stages_memory(const Config& config);
// The same for generation: texts of up to `capacity` positions, train.micro_batch of them per model
// replica; `config` is resolved for Purpose::generate.
[[nodiscard]] std::vector<StageMemory> plan_generation_memory(const Config& config,
                                                              std::int64_t capacity);

}  // namespace trireme
