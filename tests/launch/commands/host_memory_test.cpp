// SPDX-License-Identifier: Apache-2.0
// The memory of hosts that in-memory checkpoints take, planned without a process.
#include <gtest/gtest.h>

#include "launch/engine/memory_plan.h"
#include "models/config.h"

namespace trireme {
namespace {

HeldMemory held_by_a_rank_of(int ranks, std::vector<std::string> set) {
  set.insert(set.end(), {"device.type=cuda", "train.global_batch=64", "train.micro_batch=8"});
  const Config config =
      resolve_config(load_config(TRIREME_CONFIGS "/gpt2_124m.yaml", set),
                     {.ranks = ranks, .cuda_in_build = true, .gpus = 1, .native_bf16 = true});
  return plan_stages_memory(config).front().held;
}

// Weights and AdamW's moments in f32, each once in the whole job: on one host twice while a
// checkpoint is written, with several hosts also those of another rank.
TEST(HostMemory, HoldsTwoInMemoryCheckpointsOfARankAndTwoOfAnotherHosts) {
  constexpr int ranks = 8;
  constexpr double state = 124.5e6 * 12;

  const HeldMemory held = held_by_a_rank_of(ranks, {"checkpoint.in_memory_every_steps=5"});
  const HeldMemory without = held_by_a_rank_of(ranks, {"checkpoint.in_memory_every_steps=0"});

  EXPECT_NEAR(static_cast<double>(held.memory_checkpoints(false)) * ranks / state, 2, 0.05);
  EXPECT_EQ(held.memory_checkpoints(true), 2 * held.memory_checkpoints(false));
  EXPECT_EQ(without.memory_checkpoints(true), 0U);
}

}  // namespace
}  // namespace trireme
