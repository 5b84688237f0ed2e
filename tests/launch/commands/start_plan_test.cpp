// SPDX-License-Identifier: Apache-2.0
// The start of large jobs, counted on a planned rank: no process is started.
#include "launch/plan/start_plan.h"

#include <gmock/gmock.h>

#include "launch/engine/memory_plan.h"
#include "models/config.h"

namespace trireme {
namespace {

using testing::HasSubstr;

StartPlan start_of(int ranks, std::vector<std::string> set) {
  set.emplace_back("device.type=cuda");
  set.emplace_back("train.global_batch=65536");
  set.emplace_back("train.micro_batch=1");
  const Config config =
      resolve_config(load_config(TRIREME_CONFIGS "/gpt2_124m.yaml", set),
                     {.ranks = ranks, .cuda_in_build = true, .gpus = 1, .native_bf16 = true});
  return plan_start(ranks, plan_stages_memory(config).front().groups);
}

TEST(StartPlan, OneRankMeetsNobody) {
  const StartPlan start = start_of(1, {});
  EXPECT_EQ(start.communicators, 0);
  EXPECT_EQ(start.messages, 0);
  EXPECT_EQ(start.limit_seconds, 120);
}

// Groups of one rank are not split off.
TEST(StartPlan, DataRanksSplitOnce) {
  const StartPlan start = start_of(1024, {});
  EXPECT_EQ(start.splits, 1);
  EXPECT_EQ(start.communicators, 2);
  EXPECT_EQ(start.roots, 8);
  EXPECT_EQ(start.ranks_of_root, 128);
  EXPECT_EQ(start.messages, (1 + 3 * 1023) + 1023 + (1 + 3 * 1023));
  EXPECT_EQ(start.limit_seconds, 344);
  EXPECT_THAT(
      describe(start),
      HasSubstr("1024 ranks meet at 8 roots of at most 128; each makes 2 NCCL groups in 1 split "));
}

TEST(StartPlan, AMeshOfThreeAxesSplitsItsGroupsOnceAndLinksFromAPipeline) {
  const StartPlan start =
      start_of(1024, {"parallel.tensor=4", "parallel.pipeline=4", "parallel.schedule=1f1b"});
  // Data, tensor, pipeline and model from the world.
  std::int64_t messages = (1 + 3 * 1023) + 4 * 1023;
  for (const int size : {64, 4, 4, 16})
    messages += 1 + 3 * (size - 1);
  // Links from the pipeline, replicas from the tensor group: each splits 4 ranks into as many.
  const int of_four = start.splits - 4;
  messages += of_four * (3 + 1 + 3 * 3);
  EXPECT_GE(of_four, 2);
  EXPECT_LE(of_four, 6);
  EXPECT_EQ(start.messages, messages);
}

}  // namespace
}  // namespace trireme
