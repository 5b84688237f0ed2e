// SPDX-License-Identifier: Apache-2.0
// The same for a ResNet, whose running statistics are part of the weights and of the validation.
#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

class ResNetLayout : public LayoutTest {
 protected:
  // 4 micro-batches, a chain of 4 layers.
  static Run run(int steps, Settings more = {}) {
    more.push_back("train.steps=" + std::to_string(steps));
    more.emplace_back("parallel.bucket_megabytes=0.01");
    return {.family = Family::resnet, .set = more, .steps = steps};
  }
};

TEST_F(ResNetLayout, DataRanksAndZeroStagesChangeNoBit) {
  expect_same_bits(run(4), {{2, "data=2"},
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

TEST_F(ResNetLayout, FastModeAgreesWithOneRank) {
  expect_same_losses(run(20, {"precision=fp32"}),
                     {{2, "data=2 zero=3"},
                      {2, "pipeline=2 schedule=gpipe"},
                      {2, "pipeline=2 schedule=interleaved chunks=2"},
                      {4, "data=2 pipeline=2 zero=2"}},
                     1e-5);
}

}  // namespace
}  // namespace trireme::test
