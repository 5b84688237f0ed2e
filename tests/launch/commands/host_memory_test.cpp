// SPDX-License-Identifier: Apache-2.0
// What a plan knows of hosts and GPUs that are not here: memory of in-memory checkpoints, and 8-bit
// recipes that a described GPU lacks.
#include <gtest/gtest.h>

#include "launch/engine/memory_plan.h"
#include "launch/plan/layout_plan.h"
#include "models/config.h"
#include "runtime/plan/hardware.h"
#include "tests/support/expect_error.h"

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

TEST(DescribedGpu, HasItsRecipesOf8BitMatmuls) {
  const auto resolve = [](const std::string& machine, const char* recipe) {
    const plan::Hardware hardware =
        plan::load_hardware(TRIREME_CONFIGS "/hardware/" + machine + ".yaml");
    (void)resolve_config(load_config(TRIREME_CONFIGS "/gpt2_124m.yaml",
                                     {"precision=fp8", std::string("fp8_recipe=") + recipe}),
                         planned_environment(8, hardware));
  };
  test::expect_error(
      ExitCode::config, [&] { resolve("h100", "mxfp8"); }, "10.0 or more (Blackwell)",
      "use tensor or blockwise");
  test::expect_error(
      ExitCode::config, [&] { resolve("b200", "blockwise"); }, "9.0 (Hopper)",
      "use tensor or mxfp8");
  EXPECT_NO_THROW(resolve("h100", "blockwise"));
  EXPECT_NO_THROW(resolve("b200", "mxfp8"));
}

}  // namespace
}  // namespace trireme
