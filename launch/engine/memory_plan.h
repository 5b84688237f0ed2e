// SPDX-License-Identifier: Apache-2.0
// What a run will hold in memory, from its config alone: the engine is built as the run builds it,
// on a dry device that counts and touches nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/engine/session.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

// Each value becomes the largest of any rank. Collective.
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
  // What must fit into the device's memory.
  [[nodiscard]] BytesByRole on_device(DeviceType type) const;
};
[[nodiscard]] std::uint64_t total_of(const BytesByRole& bytes);
[[nodiscard]] HeldMemory held_memory(const Device& device);

// What a rank holds once it trains. `config` is resolved, for mesh_shape(config.parallel).size()
// ranks. Milliseconds, whatever the size of the model.
[[nodiscard]] HeldMemory plan_memory(const Config& config, int rank);
// Logs that beside what this session holds, on the rank where it is most. Collective. Gives what
// is held, on rank 0.
BytesByRole log_memory_plan(Session& session);

// Activations of layers of one kind, those that are alike but for their number.
struct ActivationShare {
  std::string kind;         // "blocks"
  int layers = 0;           // of this kind on the rank
  std::uint64_t bytes = 0;  // kept for all micro-batches in flight
};

// What a rank of a pipeline stage holds: of the stage's first rank, which holds no less than its
// others.
struct StageMemory {
  int stage = 0;
  int ranks = 1;
  HeldMemory held{};
  std::uint64_t cache = 0;  // of `held` activations: keys and values of texts that are continued
  // Beside Buffers: what reductions by our own tree collect from peers. What NCCL takes counts as
  // framework.
  std::uint64_t communication = 0;
  std::vector<ActivationShare> kept{};
  std::uint64_t kept_between = 0;  // kept outputs of layers and gradients at the stage's ends
  std::uint64_t scratch = 0;       // for one layer at a time, and its ops
  // More that would be kept without recomputation.
  std::uint64_t recompute_saves = 0;
};

// One for each pipeline stage.
[[nodiscard]] std::vector<StageMemory> plan_stages_memory(const Config& config);
// The same of a job that continues texts of up to `capacity` positions, train.micro_batch of them
// on each copy of the model; `config` is resolved for Purpose::generate.
[[nodiscard]] std::vector<StageMemory> plan_generation_memory(const Config& config,
                                                              std::int64_t capacity);

}  // namespace trireme
