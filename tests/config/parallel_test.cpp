// SPDX-License-Identifier: Apache-2.0
// Rules between model, batch and parallel modes. The default model has 4 blocks (6 layers with
// embedding and head), hidden 256, 4 heads, context 256; batches of 32 with micro-batches of 4.
#include <gmock/gmock.h>

#include "models/gpt/gpt.h"
#include "runtime/config/batch_ramp.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ParallelRules, AcceptEveryModeThatIsBuilt) {
  for (const char* const setting :
       {"parallel.tensor=2", "parallel.pipeline=2", "parallel.zero=1", "parallel.zero=2",
        "parallel.zero=3", "parallel.sequence=true", "parallel.schedule=gpipe",
        "parallel.schedule=zero-bubble", "parallel.tensor_blocks=4", "parallel.timeout_seconds=0.5",
        "train.recompute=full", "train.recompute=selective", "reproducibility=layout"}) {
    EXPECT_NO_THROW((void)resolved(gpt, {setting}, ranks(4))) << setting;
  }
  EXPECT_NO_THROW((void)resolved(
      gpt, {"parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.chunks=3"},
      ranks(4)));
  EXPECT_NO_THROW(
      (void)resolved(gpt, {"parallel.pipeline=2", "parallel.stage_layers=[2, 4]"}, ranks(2)));
}

TEST(ParallelRules, BlocksAreTheTensorRanksUnlessSet) {
  EXPECT_EQ(resolved(gpt).parallel.tensor_blocks, 1);
  EXPECT_EQ(resolved(gpt, {"parallel.tensor=2"}, ranks(2)).parallel.tensor_blocks, 2);
  EXPECT_EQ(resolved(gpt, {"parallel.tensor=2", "parallel.tensor_blocks=4"}, ranks(2))
                .parallel.tensor_blocks,
            4);
}

TEST(ParallelRules, TensorRanksDivideTheHeads) {
  EXPECT_EQ(refusal("data: {path: x}\nparallel:\n  tensor: 8\n", {}, ranks(8)),
            "a.yaml:3: parallel.tensor: 8 does not divide model.heads = 4; use 1, 2 or 4");
  EXPECT_EQ(refusal(gpt, {"parallel.tensor_blocks=8"}),
            "--set parallel.tensor_blocks=8: 8 does not divide model.heads = 4; use 1, 2 or 4");
}

TEST(ParallelRules, TensorRanksDivideWidthVocabularyAndRows) {
  // Heads divide the width, so a divisor of the heads divides the width.
  EXPECT_THAT(refusal(gpt, {"parallel.tensor=3", "model.hidden=256", "model.heads=4"}, ranks(3)),
              HasSubstr("3 does not divide model.heads = 4"));
  const std::vector<std::string> six_heads{"model.hidden=96", "model.heads=6"};
  EXPECT_EQ(
      refusal(gpt, {six_heads[0], six_heads[1], "parallel.tensor=3", "train.global_batch=12"},
              ranks(3)),
      "--set parallel.tensor=3: 3 does not divide model.vocabulary padded to a multiple of 64 "
      "= 256; use 1 or 2");
  EXPECT_EQ(refusal(gpt, {six_heads[0], six_heads[1], "parallel.tensor=3", "model.vocabulary=150"},
                    ranks(3)),
            "--set parallel.tensor=3: 3 does not divide train.micro_batch * model.context = 1024; "
            "use 1 or 2");
  EXPECT_NO_THROW((void)resolved(gpt,
                                 {six_heads[0], six_heads[1], "parallel.tensor=3",
                                  "model.vocabulary=150", "model.context=192"},
                                 ranks(3)));
}

TEST(ParallelRules, BlocksAreSharedEvenlyByTheTensorRanks) {
  EXPECT_EQ(refusal(gpt, {"parallel.tensor=4", "parallel.tensor_blocks=2"}, ranks(4)),
            "--set parallel.tensor_blocks=2: 2 blocks cannot be shared by parallel.tensor = 4 "
            "ranks; use auto or a multiple of 4, or tensor 1 or 2");
  EXPECT_EQ(refusal(gpt, {"parallel.tensor=2", "parallel.tensor_blocks=8"}, ranks(2)),
            "--set parallel.tensor_blocks=8: 8 does not divide model.heads = 4; use 2 or 4");
}

TEST(ParallelRules, ChunksOfRowsNeedSumsOfTensorRanksThatTheyCanCut) {
  const std::string chunks = "parallel.tensor_chunks=4", two = "parallel.tensor=2";
  EXPECT_EQ(resolved(gpt, {chunks, two}, ranks(2)).parallel.tensor_chunks, 4);
  EXPECT_NO_THROW((void)resolved(gpt, {chunks, "parallel.tensor_blocks=4"}));
  EXPECT_EQ(refusal(gpt, {chunks}),
            "--set parallel.tensor_chunks=4: 4 with parallel.tensor_blocks: 1, where ranks have no "
            "sums to overlap; use 1, or tensor 2 or more");
  for (const char* const recipe : {"fp8_recipe=tensor", "fp8_recipe=blockwise", "fp8_recipe=mxfp8"})
    EXPECT_NO_THROW((void)resolved(
        gpt, {chunks, two, "precision=fp8", recipe, "lora.rank=4", "train.initial_weights=a"},
        ranks(2)));
  EXPECT_EQ(refusal(gpt, {"parallel.tensor_chunks=3", two}, ranks(2)),
            "--set parallel.tensor_chunks=3: 3 does not divide train.micro_batch * model.context = "
            "1024; use 1, 2, 4 or 8");
  EXPECT_THAT(refusal(resnet, {chunks}), HasSubstr("only with gpt2"));
}

TEST(ParallelRules, GradientsAreSentIn16BitsIfPrecisionAndReproducibilityAllow) {
  const std::string half = "parallel.reduce_dtype=compute";
  for (const char* const precision : {"precision=bf16", "precision=fp16", "precision=fp8"}) {
    EXPECT_EQ(resolved(gpt, {half, precision}, ranks(2)).parallel.reduce_dtype,
              ReduceDtype::compute);
  }
  EXPECT_EQ(refusal(gpt, {half, "precision=fp32"}, ranks(2)),
            "--set parallel.reduce_dtype=compute: compute with precision: fp32, where all "
            "gradients are fp32; use fp32, or precision bf16, fp16 or fp8");
  EXPECT_THAT(
      refusal(gpt, {half, "precision=bf16", "reproducibility=layout"}, ranks(2)),
      HasSubstr("compute with reproducibility: layout, but rounding before the sum makes results "
                "depend on the number of ranks; use fp32, or reproducibility run or fast"));
}

TEST(ParallelRules, GradientNoiseNeedsGradientsOfSingleMicroBatches) {
  const std::string every = "train.noise_scale_every=5";
  EXPECT_EQ(resolved(gpt, {every}).train.noise_scale_every, 5);
  EXPECT_EQ(refusal(gpt, {every, "parallel.zero=2"}, ranks(2)),
            "--set train.noise_scale_every=5: 5 with parallel.zero: 2, where no rank has the "
            "gradients of one micro-batch; use 0, or zero 0 or 1");
  EXPECT_THAT(refusal(gpt, {every, "parallel.pipeline=2"}, ranks(2)),
              HasSubstr("train.noise_scale_every=5: 5 with parallel.pipeline: 2"));
  EXPECT_THAT(refusal(gpt, {every, "train.global_batch=4", "train.micro_batch=4"}),
              HasSubstr("use 0, or train.micro_batch 2 or less"));
  EXPECT_THAT(refusal(gpt, {every, "device.graphs=step", "device.type=cuda"},
                      {.cuda_in_build = true, .gpus = 1}),
              HasSubstr("with device.graphs: step"));
}

TEST(ParallelRules, BatchesThatGrowFitTheLayoutAtEverySize) {
  const auto ramp = [](const std::string& sizes) { return "train.batch_ramp=" + sizes; };
  EXPECT_NO_THROW((void)resolved(gpt, {ramp("[0:8, 100:16, 200:32]")}, ranks(2)));
  EXPECT_THAT(refusal(gpt, {ramp("[0:8, 100:20, 200:32]")}, ranks(2)),
              HasSubstr("20 samples from step 100 on cannot be divided equally among parallel.data "
                        "= 2 ranks in micro-batches of 4; use 16 or 24"));
  EXPECT_THAT(
      refusal(gpt,
              {ramp("[0:8, 200:32]"), "train.batch_ramp_form=linear", "reproducibility=layout"},
              ranks(2)),
      HasSubstr("24 samples from step 134 on cannot be divided equally among parallel.data = 2 "
                "ranks in micro-batches of 4 that are whole subtrees of one sum (reproducibility: "
                "layout); it is between two sizes of the list: use batch_ramp_form: stepwise, or "
                "sizes with only such values between them as 16 or 32"));
  EXPECT_THAT(refusal(gpt, {ramp("[0:8, 100:16]")}),
              HasSubstr("ends with 16 samples, but train.global_batch is 32"));
  EXPECT_THAT(refusal(gpt, {ramp("[5:8, 100:32]")}), HasSubstr("begins at step 5"));
  EXPECT_THAT(refusal(gpt, {ramp("[0:8, 100:32]"), "train.steps=100"}),
              HasSubstr("grows to 32 samples at step 100, which a run of train.steps = 100 does "
                        "not reach"));
  // Sizes of steps that a run has done need not fit the ranks that it goes on with.
  const std::vector<std::string> grown{ramp("[0:8, 50:32]"), "train.micro_batch=4"};
  EXPECT_THAT(refusal(gpt, grown, ranks(4)), HasSubstr("8 samples from step 0 on"));
  EXPECT_THAT(refusal(gpt, grown, {.ranks = 4, .steps_done = 49}), HasSubstr("8 samples"));
  EXPECT_EQ(resolved(gpt, grown, {.ranks = 4, .steps_done = 50}).parallel.data, 4);
  EXPECT_THAT(refusal(gpt, {"train.batch_ramp_form=linear"}),
              HasSubstr("set a ramp, or remove this key"));
  EXPECT_THAT(refusal(gpt, {ramp("[0:8, 100:8, 200:32]")}), HasSubstr("sizes must grow"));
  EXPECT_THAT(refusal(gpt, {ramp("[0:8, 100:16, 100:32]")}), HasSubstr("does not come after"));
  EXPECT_THAT(refusal(gpt, {ramp("[0:1, 9:1000000]"), "train.batch_ramp_form=linear",
                            "train.global_batch=1000000"}),
              HasSubstr("goes through 1000000 sizes"));
  for (const char* const wrong : {"[8, 100:32]", "[0:8, 99999999999:32]", "[0:8:3, 100:32]",
                                  "['0:', 1:32]", "['0:-8', 9:32]"})
    EXPECT_THAT(refusal(gpt, {ramp(wrong)}), HasSubstr("is not STEP:SIZE")) << wrong;
}

TEST(ParallelRules, SequencesThatGrowEndAtTheContext) {
  const auto ramp = [](const std::string& sizes) { return "train.context_ramp=" + sizes; };
  EXPECT_NO_THROW((void)resolved(gpt, {ramp("[0:32, 100:100, 200:256]")}));
  EXPECT_THAT(refusal(gpt, {ramp("[0:32, 100:100]")}),
              HasSubstr("ends with 100 tokens, but model.context is 256; make them equal"));
  EXPECT_THAT(refusal(gpt, {ramp("[0:32, 100:32, 200:256]")}),
              HasSubstr("32 tokens are not more than 32; sizes must grow"));
  EXPECT_THAT(refusal(gpt, {ramp("[32, 200:256]")}), HasSubstr("is not STEP:SIZE"));
  EXPECT_THAT(refusal(gpt, {ramp("[0:32, 200:256]"), "train.steps=200"}),
              HasSubstr("grows to 256 tokens at step 200, which a run of train.steps = 200 does "
                        "not reach"));
  EXPECT_THAT(refusal(resnet, {ramp("[0:1]")}), HasSubstr("has no sequences to cut"));
}

TEST(BatchRamp, IsAPureFunctionOfTheStep) {
  const std::vector<BatchRamp::Point> points = {{0, 8}, {10, 16}, {14, 32}};
  const BatchRamp stepwise(points, RampForm::stepwise), linear(points, RampForm::linear);
  EXPECT_EQ(stepwise.size_at(9), 8);
  EXPECT_EQ(stepwise.size_at(10), 16);
  EXPECT_EQ(stepwise.size_at(1000), 32);
  EXPECT_EQ(linear.size_at(9), 8);
  EXPECT_EQ(linear.size_at(11), 16);
  EXPECT_EQ(linear.size_at(12), 24);
  EXPECT_EQ(linear.size_at(14), 32);
  for (const BatchRamp& ramp : {stepwise, linear, BatchRamp(3)}) {
    std::int64_t sum = 0;
    for (std::int64_t step = 0; step < 40; ++step) {
      EXPECT_EQ(ramp.samples_before(step), sum);
      EXPECT_EQ(ramp.step_of(sum), step);
      sum += ramp.size_at(step);
      EXPECT_EQ(ramp.step_of(sum - 1), step);
    }
  }
}

TEST(ParallelRules, ResNetHasNoTensorRanks) {
  EXPECT_EQ(
      refusal(resnet, {"parallel.tensor=2"}, ranks(2)),
      "--set parallel.tensor=2: 2 with model.family: resnet, whose layers are split over data "
      "and pipeline ranks only; use 1");
  EXPECT_THAT(refusal(resnet, {"parallel.tensor_blocks=2"}), HasSubstr("only with gpt2"));
  EXPECT_THAT(refusal(resnet, {"parallel.sequence=true"}), HasSubstr("only with gpt2"));
}

TEST(ParallelRules, WithZeroStages2And3TheBatchDividesByTheDataRanks) {
  const std::vector<std::string> uneven{"parallel.pipeline=2", "train.global_batch=12"};
  EXPECT_NO_THROW((void)resolved(gpt, uneven, ranks(4)));
  EXPECT_EQ(
      refusal(gpt, {uneven[0], uneven[1], "parallel.zero=3"}, ranks(4)),
      "--set train.global_batch=12: 12 is not a multiple of train.micro_batch * parallel.data "
      "= 4 * 2 = 8, and parallel.zero: 3 reduces every micro-batch over all ranks together; use "
      "global_batch 8 or 16, or micro_batch 1, 2, 3 or 6, or 1 or 3 data ranks, or zero 0 or 1");
}

TEST(ParallelRules, AStageHasALayer) {
  EXPECT_EQ(refusal(gpt, {"parallel.pipeline=7"}, ranks(7)),
            "--set parallel.pipeline=7: 7 stages for a model of 6 layers, first and last included; "
            "use 6 or fewer");
  EXPECT_EQ(
      refusal(gpt, {"parallel.pipeline=2", "parallel.chunks=4", "parallel.schedule=interleaved"},
              ranks(2)),
      "--set parallel.chunks=4: 4 on each of 2 stages for a model of 6 layers, first and last "
      "included; use 3 or fewer");
  EXPECT_THAT(refusal(resnet, {"model.stages=[1, 2]", "parallel.pipeline=6"}, ranks(6)),
              HasSubstr("6 stages for a model of 5 layers"));
  EXPECT_NO_THROW((void)resolved(gpt, {"parallel.pipeline=6"}, ranks(6)));
}

TEST(ParallelRules, StageLayersCoverTheModel) {
  const auto message = [](const char* layers) {
    return refusal(gpt, {"parallel.pipeline=2", std::string("parallel.stage_layers=") + layers},
                   ranks(2));
  };

  EXPECT_EQ(message("[3, 2]"),
            "--set parallel.stage_layers=[3, 2]: 2 numbers that add up to 5, for pipeline * chunks "
            "= 2 stages and 6 layers, first and last included; use 2 numbers that add up to 6, or "
            "[] for a balanced cut");
  EXPECT_THAT(message("[2, 2, 2]"), HasSubstr("3 numbers that add up to 6"));
  EXPECT_THAT(message("[0, 6]"), HasSubstr("parallel.stage_layers"));
  EXPECT_THAT(refusal(gpt, {"parallel.stage_layers=[4]"}), HasSubstr("1 stages and 6 layers"));
}

TEST(ParallelRules, ChunksBelongToTheInterleavedSchedule) {
  EXPECT_EQ(refusal(gpt, {"parallel.pipeline=2", "parallel.chunks=2"}, ranks(2)),
            "--set parallel.chunks=2: 2 with parallel.schedule: 1f1b; use 1, or schedule "
            "interleaved");
  EXPECT_EQ(refusal(gpt, {"parallel.schedule=interleaved", "parallel.chunks=2"}),
            "--set parallel.chunks=2: 2 with parallel.pipeline: 1; use 1, or pipeline 2 or more");
  EXPECT_EQ(refusal(gpt, {"parallel.schedule=interleaved", "parallel.pipeline=2"}, ranks(2)),
            "a.yaml: parallel.chunks: 1 with parallel.schedule: interleaved; use 2 or more, or "
            "schedule 1f1b");
}

TEST(ParallelRules, InterleavedRunsWholeRoundsOfMicroBatches) {
  const std::vector<std::string> settings{"parallel.schedule=interleaved", "parallel.chunks=2",
                                          "parallel.pipeline=3", "train.global_batch=40"};
  EXPECT_EQ(
      refusal(gpt, settings, ranks(6)),
      "--set parallel.schedule=interleaved: interleaved needs micro-batches per data-parallel "
      "rank in multiples of the 3 stages, not 5; use train.global_batch 48 or schedule 1f1b");
  EXPECT_NO_THROW((void)resolved(
      gpt, {settings[0], settings[1], settings[2], "train.global_batch=48"}, ranks(6)));
  // Micro-batches per data rank: 3, 3 and 2, or 4, 2 and 2.
  const std::vector<std::string> three{settings[0], settings[1], "parallel.pipeline=2"};
  EXPECT_THAT(refusal(gpt, three, ranks(6)),
              HasSubstr("2 stages, not 3, 3, 2; use train.global_batch 48"));
  EXPECT_NO_THROW(
      (void)resolved(gpt, {three[0], three[1], three[2], "reproducibility=layout"}, ranks(6)));
}

TEST(ParallelRules, ZeroBubbleExcludesUnsupportedModes) {
  const std::string schedule = "parallel.schedule=zero-bubble";
  const std::string two = "parallel.pipeline=2";

  for (const std::string stage : {"2", "3"}) {
    EXPECT_EQ(refusal(gpt, {schedule, two, "parallel.zero=" + stage}, ranks(4)),
              "--set parallel.zero=" + stage + ": " + stage +
                  " with parallel.schedule: zero-bubble, which keeps gradients of several "
                  "micro-batches apart; use 0 or 1, or schedule 1f1b");
  }
  EXPECT_NO_THROW((void)resolved(gpt, {schedule, two, "parallel.zero=1"}, ranks(4)));
  EXPECT_EQ(refusal(resnet, {schedule, two}, ranks(2)),
            "--set parallel.schedule=zero-bubble: zero-bubble with model.family: resnet, whose "
            "layers do not split their backward; use gpipe, 1f1b or interleaved");
  for (const std::string kind : {"selective", "full"}) {
    EXPECT_THAT(refusal(gpt, {schedule, two, "train.recompute=" + kind}, ranks(2)),
                AllOf(StartsWith("--set train.recompute=" + kind + ": " + kind +
                                 " with parallel.schedule: zero-bubble"),
                      HasSubstr("use none, or schedule 1f1b")));
  }
}

TEST(ParallelRules, LayoutModeListsTheDataRanksOfZero2WhoseMicroBatchesAreSubtrees) {
  const auto with = [](int batch, int zero) {
    return std::vector<std::string>{"reproducibility=layout", "train.micro_batch=1",
                                    fmt::format("train.global_batch={}", batch),
                                    fmt::format("parallel.zero={}", zero)};
  };

  // Rounds over the ranks must be: the ranks are a power of two.
  EXPECT_EQ(refusal(gpt, with(12, 2), ranks(3)),
            "--set reproducibility=layout: layout: 12 micro-batches over parallel.data = 3 ranks "
            "with parallel.zero: 2 are not whole subtrees of one sum; use data 1, 2, 4 or 12, or "
            "zero 0 or 1");
  for (const int data : {1, 2, 3, 5, 7, 12})
    EXPECT_NO_THROW((void)resolved(gpt, with(12, 1), ranks(data)));
  for (const int data : {1, 2, 4, 12})
    EXPECT_NO_THROW((void)resolved(gpt, with(12, 3), ranks(data)));
  EXPECT_NO_THROW((void)resolved(gpt, {"train.global_batch=12", "train.micro_batch=1"}, ranks(2)));
}

TEST(ParallelRules, ZeroGroupsDivideTheDataRanks) {
  const std::string one = "parallel.zero=1";
  const std::string key = "--set parallel.zero_group=";

  EXPECT_EQ(resolved(gpt, {one, "parallel.zero_group=2"}, ranks(8)).parallel.shard(), 2);
  EXPECT_EQ(resolved(gpt, {one, "parallel.zero_group=8"}, ranks(8)).parallel.shard(), 8);
  EXPECT_EQ(resolved(gpt, {one}, ranks(8)).parallel.shard(), 8);
  EXPECT_EQ(resolved(gpt, {}, ranks(8)).parallel.shard(), 1);
  EXPECT_EQ(refusal(gpt, {one, "parallel.zero_group=3"}, ranks(8)),
            key + "3: 3 does not divide the data ranks, parallel.data = 8; use 2 or 4, or all");
  EXPECT_EQ(refusal(gpt, {one, "parallel.zero_group=1"}, ranks(4)),
            key + "1: 1, groups of one rank, shards nothing, parallel.data = 4; use 2, or all");
  EXPECT_EQ(refusal(gpt, {"parallel.zero_group=2"}, ranks(4)),
            key + "2: 2 with parallel.zero: 0, which shards nothing; use all, or zero 1, 2 or 3");
  EXPECT_EQ(refusal(gpt, {one, "parallel.zero_group=some"}, ranks(4)),
            key + "some: expected all, node or an integer, found the text \"some\"");
}

TEST(ParallelRules, ZeroGroupsOfANodeAreItsDataRanks) {
  const auto on = [](std::vector<int> hosts) {
    return Environment{.ranks = static_cast<int>(hosts.size()), .hosts = std::move(hosts)};
  };
  const std::string key = "--set parallel.zero_group=node: node";
  const std::vector<std::string> node{"parallel.zero=3", "parallel.zero_group=node"},
      tensor{node[0], node[1], "parallel.tensor=2"},
      pipeline{node[0], node[1], "parallel.pipeline=2"};

  EXPECT_EQ(resolved(gpt, node, on({0, 0, 0, 0, 4, 4, 4, 4})).parallel.zero_group, 4);
  EXPECT_EQ(resolved(gpt, tensor, on({0, 0, 0, 0, 4, 4, 4, 4})).parallel.zero_group, 2);
  EXPECT_EQ(resolved(gpt, pipeline, on({0, 0, 2, 2, 4, 4, 6, 6})).parallel.zero_group, 2);
  EXPECT_EQ(resolved(gpt, node, on({0, 0, 0, 0})).parallel.zero_group, 4);
  for (const std::vector<int>& hosts :
       {std::vector{0, 0, 0, 3}, {0, 1, 1, 1}, {0, 1, 0, 1}, {0, 0, 2, 3}, {0, 1, 1, 0}}) {
    EXPECT_THAT(refusal(gpt, node, on(hosts)),
                AllOf(StartsWith(key + ", but the hosts do not have equally many consecutive"),
                      HasSubstr("use a number, or all")));
  }
  EXPECT_EQ(refusal(gpt, tensor, on({0, 0, 2, 2})),
            key +
                " (1 data ranks of a host), groups of one rank, shards nothing, parallel.data = "
                "2; use all");
  EXPECT_EQ(refusal(gpt, node, ranks(4)),
            key + ", but it is not known here which ranks will share a host; use a number, or all");
}

TEST(ParallelRules, LayoutModeNeedsZeroGroupsThatAreNodesOfTheTree) {
  const auto with = [](int batch, int zero, int group) {
    return std::vector<std::string>{"reproducibility=layout", "train.micro_batch=1",
                                    fmt::format("train.global_batch={}", batch),
                                    fmt::format("parallel.zero={}", zero),
                                    fmt::format("parallel.zero_group={}", group)};
  };

  EXPECT_EQ(refusal(gpt, with(12, 1, 3), ranks(12)),
            "--set parallel.zero_group=3: 3 is not a power of two, so with reproducibility: layout "
            "not a subtree of the tree of sums, parallel.data = 12; use 2 or 4, or all");
  // 2, 2, 2, 1, 1, 1: the second group would have both.
  EXPECT_EQ(refusal(gpt, with(9, 1, 2), ranks(6)),
            "--set parallel.zero_group=2: 2 with reproducibility: layout and data ranks of 2, 2, "
            "2, 1, 1, 1 micro-batches: groups mix ranks with more and fewer; use all");
  EXPECT_NO_THROW((void)resolved(gpt, with(8, 1, 2), ranks(6)));
  EXPECT_EQ(
      refusal(gpt, with(12, 2, 2), ranks(4)),
      "--set reproducibility=layout: layout: 12 micro-batches over parallel.data = 4 ranks "
      "with parallel.zero: 2 in groups of 2 are not whole subtrees of one sum; use data 2, 6 or "
      "12, or zero 0 or 1");
  for (const int data : {6, 12})
    EXPECT_NO_THROW((void)resolved(gpt, with(12, 3, 2), ranks(data)));
}

TEST(ParallelRules, LayoutModeOverTensorRanksNeedsAFixedNumberOfBlocks) {
  const std::vector<std::string> settings{"reproducibility=layout", "parallel.tensor=2"};

  EXPECT_EQ(refusal(gpt, settings, ranks(2)),
            "a.yaml: parallel.tensor_blocks: auto with reproducibility: layout and parallel.tensor "
            "= 2, so the bits would depend on tensor; use 2 or a multiple of it, the same value in "
            "all runs that you compare");
  EXPECT_NO_THROW(
      (void)resolved(gpt, {settings[0], settings[1], "parallel.tensor_blocks=4"}, ranks(2)));
}

TEST(ParallelRules, SelectiveRecomputationNeedsAttention) {
  EXPECT_EQ(refusal(resnet, {"train.recompute=selective"}),
            "--set train.recompute=selective: selective with model.family: resnet, which has no "
            "attention or GELU to recompute; use none or full");
  EXPECT_NO_THROW((void)resolved(resnet, {"train.recompute=full"}));
}

TEST(ParallelRules, HoldOnlyForTraining) {
  const std::string of_a_big_run =
      "parallel: {tensor: 4, pipeline: 3, zero: 2, tensor_blocks: 4, timeout_seconds: 9}\n"
      "reproducibility: layout\n";

  const Config config = resolved(of_a_big_run, {}, ranks(2), Purpose::generate);

  EXPECT_EQ(config.parallel.data, 2);
  EXPECT_EQ(config.parallel.tensor * config.parallel.pipeline, 1);
  EXPECT_EQ(config.parallel.zero, 0);
  EXPECT_EQ(config.parallel.timeout_seconds, 9);
}

TEST(ParallelRules, SplitAReplicaForGenerateAndEvalIfAsked) {
  const std::string run = "parallel: {tensor: 2, zero: 1}\ndata: {validation_path: x}\n";

  EXPECT_EQ(resolved(run, {}, ranks(4), Purpose::generate).parallel.tensor, 2);
  EXPECT_EQ(resolved(run, {}, ranks(4), Purpose::generate).parallel.data, 2);
  EXPECT_EQ(resolved(run, {}, ranks(1), Purpose::generate).parallel.tensor, 1);
  EXPECT_EQ(resolved(run, {}, ranks(4), Purpose::evaluate).parallel.tensor, 1);
  const Config asked = resolved(run, {"parallel.pipeline=2"}, ranks(4), Purpose::evaluate);
  EXPECT_EQ(asked.parallel.pipeline, 2);
  EXPECT_EQ(asked.parallel.tensor, 1);
  EXPECT_EQ(asked.parallel.data, 2);
}

TEST(ParallelRules, AcceptConsistentLayoutsOnly) {
  // The mesh fills the job, every data rank has a micro-batch, every stage a layer.
  int accepted = 0, refused = 0;
  for (const int job : {1, 2, 3, 4, 6, 8, 12, 16}) {
    for (int tensor = 1; tensor <= 4; ++tensor) {
      for (int pipeline = 1; pipeline <= 8; ++pipeline) {
        for (const char* const schedule : {"gpipe", "interleaved", "zero-bubble"}) {
          try {
            const Config config =
                resolved(gpt,
                         {fmt::format("parallel.tensor={}", tensor),
                          fmt::format("parallel.pipeline={}", pipeline),
                          fmt::format("parallel.schedule={}", schedule),
                          fmt::format("parallel.chunks={}", *schedule == 'i' ? 2 : 1)},
                         ranks(job));
            ++accepted;
            const ParallelConfig& parallel = config.parallel;
            EXPECT_EQ(parallel.data * parallel.tensor * parallel.pipeline, job);
            EXPECT_GE(config.train.global_batch, config.train.micro_batch * parallel.data);
            EXPECT_EQ(config.model.as<GptOptions>().heads % parallel.tensor_blocks, 0);
            EXPECT_LE(parallel.pipeline * parallel.chunks,
                      config.model.as<GptOptions>().layers + 2);
          } catch (const Error& error) {
            ++refused;
            EXPECT_EQ(error.code(), ExitCode::config);
            EXPECT_THAT(error.what(), AllOf(HasSubstr("parallel."), HasSubstr(": ")));
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace trireme
