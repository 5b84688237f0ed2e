// SPDX-License-Identifier: Apache-2.0
// Runs that only have to agree to rounding, and the commands that read runs of any layout.
#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

class FastLayout : public LayoutTest {
 protected:
  static constexpr double agreement = 1e-5;
  static Run run() {
    return {.config = "gpt.yaml",
            .set = {"model.heads=4", "model.dropout=0.1", "train.global_batch=16", "train.steps=20",
                    "parallel.bucket_megabytes=0.02"},
            .steps = 20};
  }

  // Relative difference of bf16 losses with one or two more roundings of gradients.
  static constexpr double in_16_bits_agreement = 2e-3;
  static Run in_16_bits(const Settings& more = {}) {
    Run rounded = run();
    rounded.set.emplace_back("precision=bf16");
    rounded.set.insert(rounded.set.end(), more.begin(), more.end());
    return rounded;
  }
};

TEST_F(FastLayout, DataRanksAgreeWithOne) {
  expect_same_losses(run(),
                     {{2, "data=2"},
                      {2, "data=2 zero=1"},
                      {4, "data=4 zero=2"},
                      {2, "data=2 zero=3"},
                      {3, "data=3 zero=1"}},
                     agreement);
}

TEST_F(FastLayout, DataRanksThatSendGradientsIn16BitsAgreeWithOne) {
  expect_same_losses(
      in_16_bits(),
      {{3, "data=3 reduce_dtype=compute"},
       {3, "data=3 zero=1 reduce_dtype=compute"},
       {4, "data=4 zero=2 reduce_dtype=compute"},
       {4, "data=2 tensor=2 zero=1 reduce_dtype=compute"},
       {4, "data=2 pipeline=2 schedule=gpipe reduce_dtype=compute"},
       {4, "data=2 pipeline=2 zero=3 reduce_dtype=compute"},
       {4, "data=2 pipeline=2 schedule=interleaved chunks=2 zero=2 reduce_dtype=compute"},
       {4, "data=2 pipeline=2 schedule=zero-bubble zero=1 reduce_dtype=compute"}},
      in_16_bits_agreement);
}

TEST_F(FastLayout, MuonOfGradientsSentIn16BitsAgreesWithOneRank) {
  expect_same_losses(in_16_bits({"optimizer.name=muon"}),
                     {{3, "data=3 zero=1 reduce_dtype=compute"}}, in_16_bits_agreement);
}

TEST_F(FastLayout, AdaptersWhoseGradientsAreSentIn16BitsAgreeWithOneRank) {
  const Layout source{1, "", "source"};
  train_layout(run(), source);
  expect_same_losses(in_16_bits({"train.initial_weights=" + directory() + "/" + name_of(source),
                                 "lora.rank=3", "lora.alpha=6"}),
                     {{3, "data=3 zero=1 reduce_dtype=compute"}}, in_16_bits_agreement);
}

TEST_F(FastLayout, GradientsSentIn16BitsHaveTheSameBitsEveryTime) {
  const Run repeated = in_16_bits({"reproducibility=run"});
  for (const Layout& layout :
       {Layout{3, "data=3 reduce_dtype=compute"},
        Layout{4, "data=2 pipeline=2 schedule=zero-bubble zero=1 reduce_dtype=compute"}}) {
    const std::string first = transcript(repeated, layout);
    EXPECT_EQ(transcript(repeated, {layout.ranks, layout.text, "again"}), first) << layout.text;
  }
}

TEST_F(FastLayout, TensorRanksAgreeWithOne) {
  expect_same_losses(run(), {{2, "tensor=2"}, {4, "tensor=4 sequence=true recompute=full"}},
                     agreement);
}

TEST_F(FastLayout, PipelinesAgreeWithOneRank) {
  expect_same_losses(run(),
                     {{2, "pipeline=2 schedule=gpipe recompute=selective"},
                      {4, "pipeline=4 schedule=1f1b"},
                      {2, "pipeline=2 schedule=interleaved chunks=2"},
                      {2, "pipeline=2 schedule=zero-bubble"},
                      {8, "data=2 tensor=2 pipeline=2 zero=3 sequence=true"}},
                     agreement);
}

// Weights are written whole, so commands on any number of ranks can read them.
TEST_F(FastLayout, EvalAndGenerateReadTheRunsOfEveryLayout) {
  const Run fixed{.config = "gpt.yaml",
                  .set = {"model.heads=4", "reproducibility=layout", "parallel.tensor_blocks=4"},
                  .steps = 6};
  const Layout split{8, "data=2 tensor=2 pipeline=2 zero=3 sequence=true"};
  train_layout(fixed, {});
  train_layout(fixed, split);
  const double expected = validation_loss_of(name_of({}));

  for (const int ranks : {0, 2}) {
    const CommandResult result = trireme("eval " + directory() + "/" + name_of(split), ranks);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const auto at = result.output.find("loss      ");
    ASSERT_NE(at, std::string::npos) << result.output;
    EXPECT_NEAR(std::stod(result.output.substr(at + 10)), expected, 2e-6);
  }
  const std::string options = " --prompt rower --tokens 40 --seed 5";
  const CommandResult one = trireme("generate " + directory() + "/" + name_of({}) + options);
  const CommandResult many = trireme("generate " + directory() + "/" + name_of(split) + options);
  ASSERT_EQ(many.exit_code, 0) << many.output;
  const auto text = [](const CommandResult& result) {
    return result.output.substr(std::min(result.output.find("rower"), result.output.size()));
  };
  EXPECT_EQ(text(many).size(), 5U + 40U + 1U);
  EXPECT_EQ(text(many), text(one));
}

}  // namespace
}  // namespace trireme::test
