// SPDX-License-Identifier: Apache-2.0
// The same for image models: a ResNet, with running statistics among the weights and in the
// validation, and a ViT, with a row count that no power of two divides.
#include <gmock/gmock.h>

#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class ResNetLayout : public LayoutTest {
 protected:
  // 4 micro-batches, a chain of 4 layers.
  static Run run(int steps, Settings more = {}) {
    more.push_back("train.steps=" + std::to_string(steps));
    more.emplace_back("parallel.bucket_megabytes=0.01");
    return {.config = "resnet.yaml", .set = more, .steps = steps};
  }
};

TEST_F(ResNetLayout, DataRanksAndZeroStagesChangeNoBit) {
  expect_same_bits(run(4), {{2, "data=2"},
                            {3, "data=3"},
                            {3, "data=3 zero=1"},
                            {4, "data=4 zero=1"},
                            {2, "data=2 zero=2 recompute=full"},
                            {4, "data=4 zero=3"}});
}

TEST_F(ResNetLayout, PipelineStagesAndSchedulesChangeNoBit) {
  expect_same_bits(run(4), {{2, "pipeline=2 schedule=gpipe"},
                            {2, "pipeline=2 schedule=1f1b recompute=full"},
                            {2, "pipeline=2 schedule=interleaved chunks=2"},
                            {4, "pipeline=4 schedule=1f1b"},
                            {4, "data=2 pipeline=2 zero=1 schedule=gpipe"},
                            {4, "data=2 pipeline=2 zero=2"},
                            {4, "data=2 pipeline=2 zero=3 schedule=interleaved chunks=2"}});
}

TEST_F(ResNetLayout, Bf16ChangesNoBitEither) {
  expect_same_bits(run(4, {"precision=bf16"}),
                   {{2, "data=2 zero=3"}, {4, "data=2 pipeline=2 zero=1"}});
}

TEST_F(ResNetLayout, MixedImagesChangeNoBitEither) {
  expect_same_bits(run(4, {"data.mixup=0.4", "data.cutmix=1"}),
                   {{4, "data=4 zero=2"}, {2, "pipeline=2 schedule=gpipe"}});
}

TEST_F(ResNetLayout, FastModeAgreesWithOneRank) {
  expect_same_losses(run(20, {"precision=fp32"}),
                     {{2, "data=2 zero=3"},
                      {2, "pipeline=2 schedule=gpipe"},
                      {2, "pipeline=2 schedule=interleaved chunks=2"},
                      {4, "data=2 pipeline=2 zero=2"}},
                     1e-5);
}

class VitLayout : public LayoutTest {
 protected:
  // 8 micro-batches of 20 rows, a chain of 4 layers.
  static Run run(Settings more = {}) {
    for (const char* const set : {"model.dropout=0.1", "data.mixup=0.8", "parallel.tensor_blocks=4",
                                  "parallel.bucket_megabytes=0.02"})
      more.emplace_back(set);
    return {.config = "vit.yaml", .set = more, .steps = 3};
  }
};

TEST_F(VitLayout, ChangesNoBit) {
  expect_same_bits(run(), {{4, "data=4 zero=1"},
                           {2, "data=2 zero=3 recompute=selective"},
                           {4, "tensor=4 sequence=true recompute=full"},
                           {2, "pipeline=2 schedule=zero-bubble"},
                           {4, "tensor=2 pipeline=2 schedule=interleaved chunks=2"},
                           {8, "data=2 tensor=2 pipeline=2 zero=2 sequence=true"}});
}

TEST_F(VitLayout, InBf16ChangesNoBitEither) {
  expect_same_bits(
      run({"precision=bf16", "model.pooling=mean", "model.gelu=tanh", "model.patch=3"}),
      {{2, "data=2 zero=2"}, {4, "tensor=2 pipeline=2 schedule=zero-bubble"}});
}

TEST_F(VitLayout, InFp8ChangesNoBitEither) {
  expect_same_bits(run({"precision=fp8"}), {{4, "tensor=4 sequence=true"}});
}

TEST_F(VitLayout, RefusesWhatPatchesHeadsAndRowsDoNotAllow) {
  const auto refused = [&](const Settings& set, int ranks = 1) {
    const CommandResult result = train_vit("refused", ranks, set);
    EXPECT_NE(result.exit_code, 0) << result.output;
    return result.output;
  };

  EXPECT_THAT(
      refused({"model.patch=5"}),
      HasSubstr("model.patch=5: 5 does not divide model.image_size = 12; use 2, 3, 4 or 6"));
  EXPECT_THAT(refused({"data.cutmix=1", "train.micro_batch=1"}),
              HasSubstr("data.cutmix=1: 1 with train.micro_batch = 1"));
  EXPECT_THAT(refused({"model.heads=5"}), HasSubstr("5 does not divide model.hidden = 32"));
  EXPECT_THAT(refused({"parallel.tensor=2", "train.micro_batch=1", "model.patch=6"}, 2),
              HasSubstr("2 does not divide train.micro_batch * (1 + the patches of an image) = 5"));
}

}  // namespace
}  // namespace trireme::test
