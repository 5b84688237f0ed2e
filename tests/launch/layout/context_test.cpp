// SPDX-License-Identifier: Apache-2.0
// reproducibility: layout for sequences that are cut in time: every number of ranks that share them
// gives the bits of one, beside every other axis.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

class ContextLayout : public LayoutTest {
 protected:
  // A chain of 4 layers, 8 micro-batches of 2 sequences of 24 positions, in 4 blocks, with dropout.
  static Run run(Settings more = {}) {
    Settings set{"model.heads=4",
                 "model.dropout=0.1",
                 "train.global_batch=16",
                 "train.steps=3",
                 "parallel.context_blocks=4",
                 "parallel.tensor_blocks=2",
                 "parallel.bucket_megabytes=0.02"};
    set.insert(set.end(), more.begin(), more.end());
    return {.config = "gpt.yaml", .set = set, .steps = 3};
  }
  // Of documents that do not see each other, in windows, with tiles of rows.
  static Run documents(Settings more = {}) {
    more.insert(more.end(), {"model.family=llama", "model.kv_heads=2", "model.window=7",
                             "data.documents=separate", "train.row_tile=4"});
    return run(std::move(more));
  }
};

TEST_F(ContextLayout, RanksThatShareSequencesChangeNoBit) {
  expect_same_bits(run(), {{2, "context=2 zero=2"},
                           {4, "context=4 zero=3 recompute=full"},
                           {4, "context=2 data=2 zero=2 recompute=selective"},
                           {2, "data=2 zero=1"},
                           {8, "context=4 data=2 zero=2"}});
}

TEST_F(ContextLayout, TensorRanksAndStagesBesideThemChangeNoBit) {
  expect_same_bits(run(), {{4, "context=2 tensor=2 zero=2"},
                           {4, "context=2 tensor=2 zero=3 sequence=true"},
                           {4, "context=2 pipeline=2 zero=2"},
                           {4, "context=2 pipeline=2 zero=2 schedule=interleaved chunks=2"},
                           {8, "context=4 pipeline=2 zero=3 schedule=gpipe"}});
}

TEST_F(ContextLayout, DocumentsAndWindowsInTilesOfRowsChangeNoBit) {
  expect_same_bits(documents(), {{2, "context=2 zero=2"},
                                 {4, "context=4 zero=2"},
                                 {4, "context=4 zero=3 recompute=selective"}});
}

TEST_F(ContextLayout, SequencesThatGrowWithTheStepsChangeNoBit) {
  expect_same_bits(documents({"train.context_ramp=[\"0:8\",\"2:24\"]"}),
                   {{2, "context=2 zero=2"}, {4, "context=4 zero=2"}});
}

TEST_F(ContextLayout, WholeHeadsOnEachRankChangeNoBit) {
  expect_same_bits(documents({"parallel.context_mode=heads", "parallel.tensor_blocks=1"}),
                   {{2, "context=2 zero=2"}, {4, "context=4 zero=2 recompute=full"}});
}

TEST_F(ContextLayout, ThreeRanksOfASequenceHaveTheBitsOfOne) {
  expect_same_bits(run({"parallel.context_blocks=3"}), {{3, "context=3 zero=2"}});
}

TEST_F(ContextLayout, Bf16ChangesNoBitEither) {
  expect_same_bits(documents({"precision=bf16", "train.clip_norm=0.1"}),
                   {{2, "context=2 zero=2"}, {4, "context=4 zero=3"}});
}

TEST_F(ContextLayout, ExpertsOnTheRanksOfASequenceChangeNoBit) {
  expect_same_bits(run({"model.family=llama", "model.experts=8", "model.experts_per_token=2",
                        "model.expert_intermediate=16", "model.balance_loss=0.01"}),
                   {{2, "context=2 zero=2"},
                    {4, "context=4 expert=4 zero=2"},
                    {4, "context=4 expert=2 zero=3 recompute=full"}});
}

// A prompt of more rows than a pass on one rank of these.
TEST_F(ContextLayout, RanksThatShareAPromptContinueItAsOneDoes) {
  train_layout(documents(), {});
  const std::string command =
      "generate " + directory() + "/" + name_of({}) +
      " --prompt \"the flower of the day\" --prompt \"twenty-three characters\""
      " --tokens 9 --temperature 0 --json --set ";
  const CommandResult one = trireme(command + "parallel.context=1");
  ASSERT_EQ(one.exit_code, 0) << one.output;
  const auto texts = [](const std::string& output) {
    return output.substr(std::min(output.find("{\"prompt\""), output.size()));
  };
  EXPECT_THAT(texts(one.output), testing::HasSubstr("twenty-three"));
  for (const auto& [ranks, split] :
       {std::pair{2, "parallel.context=2"},
        {3, "parallel.context=3"},
        {4, "parallel.context=2 --set parallel.tensor=2 --set parallel.sequence=true"},
        {4, "parallel.context=2 --set parallel.pipeline=2"},
        {4, "parallel.context=2"}}) {
    const CommandResult many = trireme(command + split, ranks);
    ASSERT_EQ(many.exit_code, 0) << many.output;
    EXPECT_EQ(texts(many.output), texts(one.output)) << split;
  }
}

TEST_F(ContextLayout, ARunThatContinuesOnOtherRanksOfASequenceHasTheSameBits) {
  const Run whole = documents({"reproducibility=layout"});
  const std::string one = transcript(whole, {});
  const Layout again{4, "context=4 zero=2", "again"};
  Run part = whole;
  part.set.emplace_back("checkpoint.every_steps=2");
  Settings first = part.set;
  first.insert(first.end(), {"parallel.context=2", "parallel.zero=3"});

  const CommandResult stopped = train(part.config, name_of(again) + " --until 2", 2, first);
  ASSERT_EQ(stopped.exit_code, 0) << stopped.output;

  EXPECT_EQ(transcript(part, again), one);
}

}  // namespace
}  // namespace trireme::test
