// SPDX-License-Identifier: Apache-2.0
// reproducibility: layout for a model with experts: every grid of experts gives the bits of one
// rank, whatever the load of its ranks. Faults that it finds:
// scripts/measurements/planted_faults.txt.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

class ExpertLayout : public LayoutTest {
 protected:
  // A chain of 4 layers, 8 micro-batches of 48 tokens, 2 of 8 experts for each.
  static Run run(Settings more = {}) {
    Settings set{"model.family=llama",
                 "model.heads=4",
                 "model.experts=8",
                 "model.experts_per_token=2",
                 "model.expert_intermediate=16",
                 "model.balance_loss=0.01",
                 "train.global_batch=16",
                 "train.steps=3",
                 "parallel.tensor_blocks=4",
                 "parallel.bucket_megabytes=0.02"};
    set.insert(set.end(), more.begin(), more.end());
    return {.config = "gpt.yaml", .set = set, .steps = 3};
  }
  // As of DeepSeek-V3: a shared expert, sigmoid scores, biases that steer the choice.
  static Run steered(Settings more = {}) {
    more.insert(more.end(),
                {"model.router=sigmoid", "model.balance_rate=0.01", "model.balance_loss=0",
                 "model.sequence_balance_loss=0.01", "model.shared_intermediate=16"});
    return run(std::move(more));
  }
};

TEST_F(ExpertLayout, DataRanksThatShareExpertsChangeNoBit) {
  expect_same_bits(run(), {{2, "data=2"},
                           {2, "data=2 expert=2"},
                           {4, "data=4 expert=2"},
                           {4, "data=4 expert=4 recompute=full"},
                           {8, "data=8 expert=8"}});
}

TEST_F(ExpertLayout, TensorRanksThatShareExpertsChangeNoBit) {
  expect_same_bits(run(), {{2, "tensor=2"},
                           {4, "tensor=2 expert=4"},
                           {4, "tensor=2 expert=4 sequence=true recompute=selective"},
                           {4, "tensor=4 sequence=true"}});
}

TEST_F(ExpertLayout, PipelineStagesAndSchedulesChangeNoBit) {
  expect_same_bits(run(),
                   {{2, "pipeline=2"},
                    {4, "pipeline=2 expert=2 schedule=1f1b"},
                    {4, "pipeline=2 expert=2 schedule=zero-bubble"},
                    {4, "pipeline=2 expert=2 schedule=interleaved chunks=2 recompute=selective"},
                    {8, "data=2 tensor=2 pipeline=2 expert=4 zero=2 sequence=true"}});
}

TEST_F(ExpertLayout, ZeroStagesChangeNoBit) {
  expect_same_bits(steered(), {{4, "data=4 expert=2 zero=1"},
                               {4, "data=4 expert=2 zero=2 recompute=full"},
                               {4, "data=4 expert=2 zero=3"},
                               {4, "data=4 expert=2 zero=1 zero_group=2"}});
}

TEST_F(ExpertLayout, RoundsOfFewerRowsChangeNoBit) {
  expect_same_bits(run(), {{2, "data=2 expert=2 expert_capacity_factor=1"},
                           {4, "tensor=2 expert=4 expert_capacity_factor=1 recompute=full"},
                           {4, "pipeline=2 expert=2 expert_capacity_factor=1 schedule=zero-bubble"},
                           {4, "data=4 expert=4 expert_capacity_factor=4"}});
}

// 128 rows for each expert, with which f32 products are summed in parts where there are tiles.
TEST_F(ExpertLayout, ManyRowsOfAnExpertChangeNoBit) {
  expect_same_bits(
      run({"model.context=128", "model.experts=4"}),
      {{2, "tensor=2"}, {4, "data=4 expert=2"}, {4, "data=4 expert=4 expert_capacity_factor=1"}});
}

TEST_F(ExpertLayout, Bf16ChangesNoBitEither) {
  expect_same_bits(steered({"precision=bf16", "train.clip_norm=0.1"}),
                   {{4, "data=4 expert=4 zero=1"},
                    {4, "tensor=2 pipeline=2 schedule=zero-bubble"},
                    {4, "data=2 tensor=2 expert=4 sequence=true"}});
}

TEST_F(ExpertLayout, ARunThatContinuesOnAnotherGridHasTheSameBits) {
  const Run whole = run({"reproducibility=layout"});
  const std::string one = transcript(whole, {});
  const Layout again{4, "data=4 expert=2 zero=1", "again"};
  Run part = whole;
  part.set.emplace_back("checkpoint.every_steps=2");
  Settings first = part.set;
  first.insert(first.end(), {"parallel.tensor=2", "parallel.expert=2"});

  const CommandResult stopped = train(part.config, name_of(again) + " --until 2", 2, first);
  ASSERT_EQ(stopped.exit_code, 0) << stopped.output;

  EXPECT_EQ(transcript(part, again), one);
}

}  // namespace
}  // namespace trireme::test
