// SPDX-License-Identifier: Apache-2.0
// reproducibility: layout for a GPT: every layout gives the bits of one rank.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class GptLayout : public LayoutTest {
 protected:
  // 8 micro-batches, a chain of 4 layers, blocks that 1, 2 or 4 tensor ranks share.
  static Run run(Settings more = {}) {
    Settings set{"model.heads=4", "model.dropout=0.1",        "train.global_batch=16",
                 "train.steps=3", "parallel.tensor_blocks=4", "parallel.bucket_megabytes=0.02"};
    set.insert(set.end(), more.begin(), more.end());
    return {.config = "gpt.yaml", .set = set, .steps = 3};
  }
  static Run one_step_of(int micro_batches) {
    Run of_one = run({fmt::format("train.global_batch={}", micro_batches), "train.micro_batch=1",
                      "train.steps=1", "model.context=4", "parallel.timeout_seconds=50"});
    of_one.steps = 1;
    return of_one;
  }
  // The text with a document behind every "oar".
  Settings documents() {
    const std::string packed = directory() + "/documents";
    const CommandResult result = trireme(fmt::format(
        "data pack-text --quiet --document-separator oar --validation 0.1 --out {} {}/text.txt",
        packed, data_directory()));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return {"data.documents=separate", "data.path=" + packed + "/train",
            "data.validation_path=" + packed + "/validation"};
  }
  // Questions and answers; some windows have no target that counts.
  Settings prompts() {
    const std::string packed = directory() + "/prompts";
    std::string lines;
    for (int i = 0; i < 300; ++i)
      lines += fmt::format(R"({{"prompt":"{:050}+{}=","completion":"{}"}})"
                           "\n",
                           i, i * i, i + i * i);
    write_file(packed + ".jsonl", lines);
    const CommandResult result = trireme(
        fmt::format("data pack-text --quiet --pairs --validation 0.1 --out {0} {0}.jsonl", packed));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("% count)"), std::string::npos) << result.output;
    return {"data.documents=separate", "data.path=" + packed + "/train",
            "data.validation_path=" + packed + "/validation"};
  }
};

TEST_F(GptLayout, DataRanksAndZeroStagesChangeNoBit) {
  expect_same_bits(run(), {{2, "data=2"},
                           {4, "data=4 zero=1"},
                           {8, "data=8 zero=2"},
                           {2, "data=2 zero=3"},
                           {2, "data=2 zero=2 reducer=inline"},
                           {4, "data=4 zero=3 recompute=full"}});
}

TEST_F(GptLayout, DataRanksThatHoldDifferentNumbersOfMicroBatchesChangeNoBit) {
  expect_same_bits(run(), {{3, "data=3"},
                           {5, "data=5 zero=1"},
                           {7, "data=7 reducer=inline"},
                           {6, "data=3 tensor=2 zero=1 sequence=true recompute=full"},
                           {6, "data=3 pipeline=2 zero=1 schedule=zero-bubble"},
                           {6, "data=3 pipeline=2 schedule=interleaved chunks=2"}});
  EXPECT_THAT(train_layout(run({"reproducibility=layout"}), {3, "data=3", "heard"}).output,
              HasSubstr("micro-batches of data ranks: 4, 2, 2"));
}

TEST_F(GptLayout, TwentyFourMicroBatchesHaveTheSameBitsOnFiveAndSevenRanks) {
  expect_same_bits(run({"train.global_batch=48", "train.noise_scale_every=2"}),
                   {{3, "data=3"}, {5, "data=5"}, {6, "data=6 zero=1"}, {7, "data=7 zero=1"}});
}

TEST_F(GptLayout, TensorRanksAndSequenceParallelismChangeNoBit) {
  expect_same_bits(run(), {{2, "tensor=2"},
                           {2, "tensor=2 sequence=true recompute=selective"},
                           {4, "tensor=4"},
                           {4, "tensor=4 sequence=true recompute=full"}});
}

// One number of chunks; another may have other bits (models/README.md).
TEST_F(GptLayout, TensorRanksThatSumInChunksChangeNoBit) {
  expect_same_bits(run({"parallel.tensor_chunks=4"}),
                   {{2, "tensor=2"},
                    {4, "tensor=4 recompute=full"},
                    {4, "tensor=2 pipeline=2 schedule=zero-bubble"}});
}

TEST_F(GptLayout, PipelineStagesAndSchedulesChangeNoBit) {
  expect_same_bits(run(), {{2, "pipeline=2 schedule=gpipe"},
                           {2, "pipeline=2 schedule=1f1b recompute=full"},
                           {2, "pipeline=2 schedule=interleaved chunks=2 recompute=selective"},
                           {2, "pipeline=2 schedule=zero-bubble stage_layers=[1,3]"},
                           {4, "pipeline=4 schedule=gpipe"},
                           {4, "pipeline=4 schedule=1f1b"},
                           {4, "pipeline=4 schedule=zero-bubble"}});
}

TEST_F(GptLayout, MoreMicroBatchesThanAStreamQueuesTransfersChangeNoBit) {
  expect_same_bits(one_step_of(300), {{2, "pipeline=2 schedule=gpipe"},
                                      {2, "pipeline=2 schedule=1f1b"},
                                      {2, "pipeline=2 schedule=interleaved chunks=2"},
                                      {2, "pipeline=2 schedule=zero-bubble"},
                                      {3, "pipeline=3 schedule=gpipe"}});
}

TEST_F(GptLayout, AThousandMicroBatchesChangeNoBit) {
  expect_same_bits(one_step_of(1000), {{2, "pipeline=2 schedule=gpipe"},
                                       {3, "pipeline=3 schedule=1f1b"},
                                       {3, "pipeline=3 schedule=zero-bubble"}});
}

TEST_F(GptLayout, CombinationsOnEightRanksChangeNoBit) {
  expect_same_bits(run(), {{8, "data=2 tensor=2 pipeline=2 zero=2 sequence=true"},
                           {8,
                            "data=2 tensor=2 pipeline=2 zero=3 schedule=interleaved chunks=2 "
                            "recompute=full"},
                           {8, "data=2 pipeline=4 zero=1 schedule=zero-bubble"},
                           {8, "tensor=4 pipeline=2 sequence=true schedule=gpipe"},
                           {8, "data=4 tensor=2 zero=3 sequence=true recompute=selective"}});
}

// The first steps overflow and are skipped, everywhere.
TEST_F(GptLayout, Fp16ChangesNoBitEither) {
  expect_same_bits(run({"precision=fp16", "loss_scale.initial=16777216", "loss_scale.factor=64"}),
                   {{2, "data=2 zero=1"}, {4, "tensor=2 pipeline=2"}});
}

// Heads that share keys, wider together than the residual stream, normalised, with a window.
Settings llama() {
  return {"model.family=llama", "model.heads=8",  "model.kv_heads=4",   "model.head_size=6",
          "model.qk_norm=true", "model.window=9", "model.qkv_bias=true"};
}

// Texts of some words each, so that most targets count but not all.
TEST_F(GptLayout, WithDocumentsApartChangesNoBit) {
  expect_same_bits(run(documents()), {{2, "data=2 zero=3"},
                                      {4, "tensor=4 sequence=true recompute=full"},
                                      {4, "tensor=2 pipeline=2 schedule=zero-bubble"},
                                      {2, "pipeline=2 recompute=selective"},
                                      {2, "pipeline=2 schedule=interleaved chunks=2"}});
}

TEST_F(GptLayout, WithPromptsThatDoNotCountChangesNoBit) {
  expect_same_bits(run(prompts()), {{2, "data=2 zero=3"},
                                    {4, "tensor=2 pipeline=2 schedule=zero-bubble"},
                                    {4, "tensor=4 sequence=true recompute=full"}});
}

TEST_F(GptLayout, OfALlamaWithDocumentsApartInBf16ChangesNoBit) {
  Settings set = documents();
  std::ranges::move(llama(), std::back_inserter(set));
  set.emplace_back("precision=bf16");
  expect_same_bits(run(set), {{4, "data=2 tensor=2 zero=2 sequence=true"},
                              {2, "pipeline=2 schedule=zero-bubble"}});
}

TEST_F(GptLayout, OfALlamaChangesNoBit) {
  expect_same_bits(run(llama()), {{2, "data=2 zero=3"},
                                  {4, "tensor=4"},
                                  {4, "tensor=4 sequence=true recompute=selective"},
                                  {2, "pipeline=2 schedule=zero-bubble"},
                                  {4, "tensor=2 pipeline=2 recompute=full"}});
}

// One stage has no trained weights.
TEST_F(GptLayout, OfAdaptersChangesNoBit) {
  static_cast<void>(train_layout(run(), {1, "", "source"}));
  const Run adapted =
      run({"train.initial_weights=" + directory() + "/" + name_of({1, "", "source"}), "lora.rank=3",
           "lora.alpha=6"});
  expect_same_bits(adapted, {{4, "data=4 zero=1"},
                             {3, "data=3 zero=1"},
                             {8, "data=8 zero=2"},
                             {4, "tensor=4 recompute=full"},
                             {2, "pipeline=2 schedule=zero-bubble stage_layers=[1,3]"},
                             {4, "pipeline=4"}});
}

TEST_F(GptLayout, OfAdaptersInChunksChangesNoBit) {
  static_cast<void>(train_layout(run(), {1, "", "source"}));
  expect_same_bits(
      run({"train.initial_weights=" + directory() + "/" + name_of({1, "", "source"}), "lora.rank=3",
           "parallel.tensor_chunks=2"}),
      {{4, "tensor=4 recompute=full"}, {4, "tensor=2 pipeline=2 schedule=zero-bubble"}});
}

TEST_F(GptLayout, OfAdaptersOfALlamaInBf16ChangesNoBit) {
  Settings set = llama();
  set.emplace_back("precision=bf16");
  static_cast<void>(train_layout(run(set), {1, "", "source"}));
  set.insert(set.end(), {"train.initial_weights=" + directory() + "/" + name_of({1, "", "source"}),
                         "lora.rank=5", "lora.targets=[qkv,contract]"});
  expect_same_bits(run(set),
                   {{8, "data=2 tensor=2 pipeline=2 zero=3 schedule=interleaved chunks=2"},
                    {4, "data=2 tensor=2 zero=3 sequence=true recompute=selective"}});
}

TEST_F(GptLayout, OfALlamaInBf16ChangesNoBit) {
  Settings set = llama();
  set.emplace_back("precision=bf16");
  expect_same_bits(run(set), {{4, "data=2 tensor=2 zero=2 sequence=true"},
                              {4, "tensor=2 pipeline=2 schedule=zero-bubble"}});
}

// Masked tokens are drawn per sample; post-norm blocks; a head with one more layer and a bias.
TEST_F(GptLayout, OfABertChangesNoBit) {
  const Settings bert{"model.family=bert", "model.vocabulary=257", "model.mask_token=256"};
  expect_same_bits(run(bert), {{4, "data=4 zero=2"},
                               {4, "tensor=4 sequence=true recompute=selective"},
                               {2, "pipeline=2 schedule=zero-bubble"},
                               {4, "tensor=2 pipeline=2 recompute=full"}});
}

// Scales belong to the fixed tensor blocks.
TEST_F(GptLayout, Fp8ChangesNoBitEither) {
  expect_same_bits(run({"precision=fp8"}), {{2, "data=2 zero=3"},
                                            {2, "pipeline=2 schedule=zero-bubble"},
                                            {4, "tensor=4 sequence=true recompute=selective"}});
}

// Blocks of scales end with the tensor blocks, which here are narrower than 128 or 32 columns.
TEST_F(GptLayout, BlockwiseFp8ChangesNoBitEither) {
  expect_same_bits(run({"precision=fp8", "fp8_recipe=blockwise"}),
                   {{2, "data=2 zero=3"},
                    {2, "pipeline=2 schedule=zero-bubble"},
                    {4, "tensor=4 sequence=true recompute=selective"}});
}

TEST_F(GptLayout, Mxfp8ChangesNoBitEither) {
  expect_same_bits(run({"precision=fp8", "fp8_recipe=mxfp8"}),
                   {{2, "data=2 zero=3"},
                    {2, "pipeline=2 schedule=zero-bubble"},
                    {4, "tensor=4 sequence=true recompute=selective"}});
}

TEST_F(GptLayout, Fp8InChunksChangesNoBitEither) {
  expect_same_bits(run({"precision=fp8", "parallel.tensor_chunks=4"}),
                   {{2, "tensor=2"}, {8, "data=2 tensor=4 zero=2 recompute=selective"}});
}

TEST_F(GptLayout, BlockwiseFp8InChunksChangesNoBitEither) {
  expect_same_bits(run({"precision=fp8", "fp8_recipe=blockwise", "parallel.tensor_chunks=4"}),
                   {{2, "tensor=2"}, {4, "tensor=4 recompute=selective"}});
}

TEST_F(GptLayout, Bf16ChangesNoBitEither) {
  expect_same_bits(run({"precision=bf16"}),
                   {{2, "data=2 zero=3"},
                    {3, "data=3 zero=1"},
                    {4, "data=4 zero=2"},
                    {5, "data=5 zero=1"},
                    {2, "pipeline=2 schedule=zero-bubble"},
                    {4, "tensor=4 sequence=true"},
                    {4, "data=2 pipeline=2 zero=1 schedule=interleaved chunks=2"},
                    {4, "pipeline=2 tensor=2 schedule=interleaved chunks=2 recompute=full"},
                    {8, "data=2 tensor=2 pipeline=2 zero=2 sequence=true"}});
}

TEST_F(GptLayout, SixMicroBatchesMakeTheSameTreeOnEveryLayout) {
  expect_same_bits(run({"train.global_batch=12"}), {{2, "pipeline=2 schedule=gpipe"},
                                                    {2, "pipeline=2 schedule=interleaved chunks=2"},
                                                    {2, "pipeline=2 schedule=zero-bubble"},
                                                    {2, "data=2 zero=2"},
                                                    {6, "data=3 pipeline=2 zero=1"}});
}

TEST_F(GptLayout, ALimitedValidationCoversTheSameSamples) {
  expect_same_bits(run({"train.eval_batches=1", "train.eval_every=2"}),
                   {{4, "data=4"}, {2, "pipeline=2"}});
}

TEST_F(GptLayout, WeightFilesAndAveragesAreTheSameBytes) {
  const Run averaged = run({"reproducibility=layout", "train.ema_decay=0.5",
                            "train.label_smoothing=0.1", "optimizer.name=sgd", "precision=bf16"});
  const auto average = [&](const Layout& layout) {
    return read_file(directory() + "/" + name_of(layout) + "/weights_average.safetensors");
  };
  const std::string whole = transcript(averaged, {});
  EXPECT_FALSE(average({}) == weights_of(name_of({})));
  for (const Layout& split : {Layout{8, "data=2 tensor=2 pipeline=2 zero=2 sequence=true"},
                              Layout{3, "data=3 zero=1"}, Layout{2, "data=2 zero=3"}}) {
    SCOPED_TRACE(split.text);

    EXPECT_EQ(transcript(averaged, split), whole);
    EXPECT_TRUE(weights_of(name_of(split)) == weights_of(name_of({})));
    EXPECT_TRUE(average(split) == average({}));
  }
}

TEST_F(GptLayout, TranscriptsTellRunsApart) {
  const Run fixed = run({"reproducibility=layout"});

  const std::string one = transcript(fixed, {});
  const std::string blocks = transcript(fixed, {1, "tensor_blocks=2"});
  const std::string seed = transcript(run({"reproducibility=layout", "run.seed=8"}), {1, "data=1"});

  EXPECT_THAT(one, HasSubstr("grad_norm"));
  EXPECT_NE(blocks, one) << "other blocks sum in another order";
  EXPECT_NE(seed, one);
  // Even losses differ in the last bits if sums follow the layout.
  const std::string two = transcript(run({"reproducibility=run"}), {2, "data=2"});
  EXPECT_THAT(two, Not(HasSubstr("optimizer state")));
  EXPECT_NE(two.substr(0, two.find("final loss")), one.substr(0, one.find("final loss")));
}

}  // namespace
}  // namespace trireme::test
