// SPDX-License-Identifier: Apache-2.0
// Every parallel mode on emulated GPUs against the CPU engine, and bit for bit against each other
// if only the order of enqueueing differs.
#include <gmock/gmock.h>

#include "tests/launch/fixture/emulated_fixture.h"

namespace trireme::test {
namespace {

class EmulatedModes : public EmulatedTest {
 protected:
  // Low-rank factors beside the weights of a run.
  Run adapted(const Settings& more) {
    const Layout source{1, "device.type=cpu", "source"};
    train_layout(gpt(), source);
    Settings set{"train.initial_weights=" + directory() + "/" + name_of(source), "lora.rank=3",
                 "lora.alpha=6"};
    set.insert(set.end(), more.begin(), more.end());
    return gpt(set);
  }

  void expect_equal(const Run& run, const std::vector<Layout>& layouts) {
    const std::string first = transcript(run, layouts.front());
    for (std::size_t i = 1; i < layouts.size(); ++i)
      EXPECT_EQ(transcript(run, layouts[i]), first) << layouts[i].text;
  }
};

TEST_F(EmulatedModes, LayoutsAgreeWithTheCpuEngine) {
  expect_cpu_losses(gpt(),
                    {{1, ""},
                     {2, "data=2"},
                     {2, "data=2 zero=1"},
                     {2, "tensor=2"},
                     {2, "pipeline=2 schedule=zero-bubble"},
                     {4, "data=2 tensor=2 zero=3 sequence=true recompute=full"},
                     {4, "data=2 pipeline=2 zero=2 schedule=interleaved chunks=2"}},
                    agreement);
}

TEST_F(EmulatedModes, LlamasAgreeWithTheCpuEngine) {
  expect_cpu_losses(
      gpt({"model.family=llama", "model.kv_heads=2", "model.head_size=6", "model.qk_norm=true",
           "model.qkv_bias=true", "model.window=5", "model.attention_soft_cap=5",
           "model.rope_scaling=llama3", "model.rope_factor=2", "model.rope_original_context=8"}),
      {{1, ""},
       {2, "tensor=2 sequence=true recompute=selective"},
       {2, "pipeline=2 schedule=zero-bubble"}},
      agreement);
}

TEST_F(EmulatedModes, BertsAgreeWithTheCpuEngine) {
  expect_cpu_losses(
      gpt({"model.family=bert", "model.vocabulary=257", "model.mask_token=256"}),
      {{1, ""}, {2, "tensor=2 sequence=true"}, {2, "pipeline=2 schedule=zero-bubble"}}, agreement);
}

TEST_F(EmulatedModes, AdaptersAgreeWithTheCpuEngine) {
  expect_cpu_losses(adapted({}),
                    {{1, ""},
                     {2, "tensor=2 sequence=true"},
                     {2, "tensor=2 tensor_chunks=2"},
                     {4, "data=2 pipeline=2 zero=3"}},
                    agreement);
}

TEST_F(EmulatedModes, AdaptersInBf16AgreeWithTheCpuEngine) {
  expect_cpu_losses(adapted({"precision=bf16"}), {{2, "data=2 zero=3"}}, 1e-3);
}

TEST_F(EmulatedModes, ResNetsAgreeWithTheCpuEngine) {
  expect_cpu_losses(
      resnet(), {{1, ""}, {2, "data=2 zero=2"}, {2, "pipeline=2 schedule=interleaved chunks=2"}},
      agreement);
}

// Rounded at other places; a wrong term would show in the second digit.
TEST_F(EmulatedModes, HalfPrecisionsAgreeWithTheCpuEngine) {
  expect_cpu_losses(gpt({"precision=bf16"}),
                    {{2, "data=2 zero=3"},
                     {2, "data=2 zero=1"},
                     {2, "data=2 reduce_dtype=compute"},
                     {4, "data=2 tensor=2 zero=2 reduce_dtype=compute"}},
                    1e-3);
}

TEST_F(EmulatedModes, ScaledLossesOfFp16AgreeWithTheCpuEngine) {
  expect_cpu_losses(gpt({"precision=fp16"}), {{2, "tensor=2 device.graphs=step"}}, 1e-3);
}

TEST_F(EmulatedModes, LayoutModeChangesNoBit) {
  expect_same_bits(gpt({"parallel.tensor_blocks=4"}), {{2, "data=2 zero=1 device.graphs=step"},
                                                       {3, "data=3"},
                                                       {3, "data=3 zero=1 device.graphs=step"},
                                                       {4, "tensor=2 pipeline=2"},
                                                       {2, "tensor=2 tensor_chunks=4"}});
}

TEST_F(EmulatedModes, CutSequencesAgreeWithTheCpuEngine) {
  expect_cpu_losses(gpt({"parallel.context_blocks=2", "model.family=llama", "model.kv_heads=2"}),
                    {{1, ""},
                     {2, "context=2 zero=2 recompute=selective"},
                     {2, "context=2 zero=2 context_mode=heads"}},
                    agreement);
}

TEST_F(EmulatedModes, CutSequencesInTilesAndBf16AgreeWithTheCpuEngine) {
  expect_cpu_losses(gpt({"parallel.context_blocks=2", "precision=bf16", "train.row_tile=4"}),
                    {{2, "context=2 zero=2"}, {2, "context=2 zero=3 context_mode=heads"}}, 1e-3);
}

TEST_F(EmulatedModes, RanksThatShareSequencesChangeNoBit) {
  expect_same_bits(gpt({"parallel.context_blocks=2"}),
                   {{2, "context=2 zero=2"}, {2, "context=2 zero=2 device.graphs=step"}});
}

// Scales of all rows, and codes that stay while an adapter multiplies its rows between two chunks.
TEST_F(EmulatedModes, ChunksOfRowsChangeNoBitInFp8) {
  const Settings fp8{"parallel.tensor_blocks=4", "precision=fp8"};
  expect_same_bits(gpt(fp8), {{2, "tensor=2 tensor_chunks=4"},
                              {4, "tensor=2 tensor_chunks=2 pipeline=2 schedule=zero-bubble"}});
}

TEST_F(EmulatedModes, ChunksOfRowsChangeNoBitOfAdaptersInFp8) {
  expect_same_bits(adapted({"parallel.tensor_blocks=4", "precision=fp8"}),
                   {{2, "tensor=2 tensor_chunks=4"}});
}

// Far more messages than a stream's queue holds.
TEST_F(EmulatedModes, ManyMicroBatchesChangeNoBit) {
  Run run = gpt({"model.context=4", "train.global_batch=150", "train.micro_batch=1",
                 "train.steps=1", "parallel.timeout_seconds=60"});
  run.steps = 1;
  expect_same_bits(run, {{2, "pipeline=2 schedule=gpipe"}});
}

TEST_F(EmulatedModes, OverlapChangesNoBit) {
  expect_equal(gpt(), {{2, "data=2"}, {2, "data=2 reducer=inline"}});
  expect_equal(gpt(), {{2, "data=2 zero=2"}, {2, "data=2 zero=2 reducer=inline"}});
  expect_equal(gpt({"precision=fp16", "parallel.reduce_dtype=compute"}),
               {{2, "data=2 zero=1"},
                {2, "data=2 zero=1 reducer=inline"},
                {2, "data=2 zero=1 device.graphs=step"}});
}

TEST_F(EmulatedModes, RepetitionsAndRanksThatShareAGpuChangeNoBit) {
  expect_equal(gpt({"precision=bf16", "reproducibility=run", "parallel.reduce_dtype=compute"}),
               {{3, "data=3 zero=1"}, {3, "data=3 zero=1", "again"}});

  const Layout layout{2, "data=2 zero=1"};
  const std::string apart = transcript(gpt(), layout);
  EXPECT_EQ(transcript(gpt(), {2, "data=2 zero=1", "again"}), apart);

  const ScopedVariable one("TRIREME_EMULATED_GPUS", "1");
  EXPECT_EQ(transcript(gpt({"device.share=true"}), {2, "data=2 zero=1", "shared"}), apart);
}

// Eager, lazy, and on threads: a missing wait would read old data.
TEST_F(EmulatedModes, WhenTheDeviceWorksChangesNoBit) {
  const std::string threads = transcript(gpt(), {});
  for (const char* const mode : {"eager", "lazy"}) {
    const ScopedVariable streams("TRIREME_EMULATED_STREAMS", mode);
    EXPECT_EQ(transcript(gpt(), {1, "", mode}), threads);
  }
}

TEST_F(EmulatedModes, AMeasuredMachineIsItsGpuWithTheMemoryOfTheGpu) {
  const ScopedVariable memory("TRIREME_EMULATED_MEMORY", "2048");

  const CommandResult result = trireme(
      "bench machine configs/llama_tiny.yaml --accept-load --seconds 0 "
      "--set device.type=cuda --set model.layers=1 --set model.hidden=32 --set "
      "model.intermediate=32 --set model.context=16 --set train.micro_batch=1");

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, testing::AllOf(testing::HasSubstr("name: \"Emulated GPU\""),
                                            testing::HasSubstr("memory_bytes: 2147483648\n")));
}

}  // namespace
}  // namespace trireme::test
