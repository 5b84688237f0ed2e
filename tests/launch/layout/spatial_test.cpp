// SPDX-License-Identifier: Apache-2.0
// Samples that several ranks share, cut along one, two or three axes with odd extents, against one
// rank with the same slabs.
#include <gmock/gmock.h>

#include "tests/launch/fixture/fields_fixture.h"
#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

class SpatialLayout : public LayoutTest {
 protected:
  static void SetUpTestSuite() {
    LayoutTest::SetUpTestSuite();
    write_field_models(data_directory());
  }
};

TEST_F(SpatialLayout, OfCosmoFlowChangesNoBit) {
  expect_same_bits(
      {.config = "cosmoflow.yaml", .set = {"parallel.spatial_slabs=[2,2,2]"}, .steps = 4},
      {{2, "spatial=[2,1,1]"},
       {4, "spatial=[2,2,1] recompute=full"},
       {8, "spatial=[2,2,2]"},
       {4, "spatial=[2,1,1] data=2 zero=2"},
       {4, "spatial=[2,1,1] pipeline=2 zero=1"},
       {2, "data=2 zero=3"}});
}

TEST_F(SpatialLayout, OfAUNetChangesNoBit) {
  expect_same_bits({.config = "unet.yaml", .set = {"parallel.spatial_slabs=[1,4,2]"}, .steps = 4},
                   {{2, "spatial=[1,2,1]"},
                    {4, "spatial=[1,4,1] recompute=full"},
                    {8, "spatial=[1,4,2]"},
                    {4, "spatial=[1,2,1] data=2 zero=3"},
                    {6, "spatial=[1,2,1] pipeline=3"},
                    {4, "spatial=[1,2,1] pipeline=2 schedule=interleaved chunks=3"}});
}

TEST_F(SpatialLayout, OfMapsOfValuesChangesNoBit) {
  expect_same_bits({.config = "flow.yaml", .set = {"parallel.spatial_slabs=[1,2,2]"}, .steps = 4},
                   {{2, "data=2"}, {2, "spatial=[1,2,1]"}, {4, "spatial=[1,2,2]"}});
}

TEST_F(SpatialLayout, OfAUNetInBf16ChangesNoBitEither) {
  expect_same_bits({.config = "unet.yaml",
                    .set = {"parallel.spatial_slabs=[1,2,2]", "precision=bf16"},
                    .steps = 4},
                   {{2, "spatial=[1,2,1]"}, {4, "spatial=[1,2,2]"}});
}

TEST_F(SpatialLayout, OfAUNetOfVolumesChangesNoBit) {
  expect_same_bits(
      {.config = "unet_of_volumes.yaml", .set = {"parallel.spatial_slabs=[2,2,1]"}, .steps = 3},
      {{2, "spatial=[2,1,1]"}, {4, "spatial=[2,2,1]"}});
}

// Instance and group norm, strides and the dice loss; two samples in a micro-batch.
TEST_F(SpatialLayout, OfTheUNetOfMlperfChangesNoBit) {
  expect_same_bits(
      {.config = "unet_of_mlperf.yaml", .set = {"parallel.spatial_slabs=[2,2,2]"}, .steps = 3},
      {{2, "spatial=[2,1,1]"},
       {4, "spatial=[2,2,1] recompute=full"},
       {8, "spatial=[2,2,2]"},
       {4, "spatial=[2,1,1] data=2 zero=3"},
       {6, "spatial=[2,1,1] pipeline=3"},
       {2, "data=2 zero=2"}});
}

TEST_F(SpatialLayout, OfGroupNormInBf16ChangesNoBitEither) {
  expect_same_bits({.config = "unet_of_mlperf.yaml",
                    .set = {"parallel.spatial_slabs=[4,1,1]", "precision=bf16", "model.norm=group",
                            "model.norm_groups=2", "model.filters=4", "model.widest=8"},
                    .steps = 3},
                   {{2, "spatial=[2,1,1]"}, {4, "spatial=[4,1,1]"}});
}

// Dilations wider than slabs; layers with fewer rows than slabs are whole.
TEST_F(SpatialLayout, OfDeepCamChangesNoBit) {
  expect_same_bits(
      {.config = "deepcam.yaml", .set = {"parallel.spatial_slabs=[1,4,2]"}, .steps = 4},
      {{2, "spatial=[1,2,1]"},
       {4, "spatial=[1,4,1] recompute=full"},
       {8, "spatial=[1,4,2]"},
       {4, "spatial=[1,2,1] data=2 zero=3"},
       {6, "spatial=[1,2,1] pipeline=3"},
       {2, "data=2 zero=1"}});
}

TEST_F(SpatialLayout, OfDeepCamInBf16ChangesNoBitEither) {
  expect_same_bits({.config = "deepcam.yaml",
                    .set = {"parallel.spatial_slabs=[1,2,2]", "precision=bf16"},
                    .steps = 4},
                   {{2, "spatial=[1,2,1]"}, {4, "spatial=[1,2,2]"}});
}

TEST_F(SpatialLayout, OfAnyNumberOfRanksHasTheLossesOfOne) {
  expect_same_losses({.config = "unet.yaml", .steps = 4},
                     {{3, "spatial=[1,3,1]"}, {3, "spatial=[1,1,3]"}, {5, "spatial=[1,5,1]"}},
                     1e-4);
}

TEST_F(SpatialLayout, OfAnyNumberOfRanksHasTheLossesOfOneWithInstanceNormToo) {
  expect_same_losses({.config = "unet_of_mlperf.yaml", .steps = 3},
                     {{3, "spatial=[3,1,1]"}, {5, "spatial=[1,1,5]"}}, 1e-4);
}

// At a rate at which roundings do not grow.
TEST_F(SpatialLayout, OfAnyNumberOfRanksHasTheLossesOfOneInDeepCamToo) {
  expect_same_losses(
      {.config = "deepcam.yaml", .set = {"optimizer.learning_rate=1e-4"}, .steps = 4},
      {{3, "spatial=[1,3,1]"}, {5, "spatial=[1,1,5]"}, {7, "spatial=[1,7,1]"}}, 1e-4);
}

TEST_F(SpatialLayout, IsRefusedWithValuesThatWork) {
  const Settings layout{"reproducibility=layout"};
  const auto refused = [&](const char* config, int ranks, Settings set, const char* why) {
    const CommandResult result = train(config, "refused", ranks, set);
    EXPECT_EQ(result.exit_code, 2) << why;
    EXPECT_THAT(result.output, testing::HasSubstr(why));
  };
  refused("unet.yaml", 2, {"parallel.spatial=[2,1,1]"}, "2 parts of model.depth = 1; use 1");
  refused("cosmoflow.yaml", 2, {"parallel.tensor=2"}, "and parallel.spatial to share samples");
  refused("cosmoflow.yaml", 2, {"parallel.spatial=[2,1,1]", "parallel.spatial_slabs=[3,1,1]"},
          "use [4, 1, 1]");
  refused("cosmoflow.yaml", 3, {"parallel.spatial=[2,1,1]"}, "start a multiple of 2 ranks");
  refused("cosmoflow.yaml", 2, {"reproducibility=layout", "parallel.spatial=[2,1,1]"},
          "parallel.spatial_slabs: [] with reproducibility: layout");
  refused("cosmoflow.yaml", 2,
          {"reproducibility=layout", "parallel.spatial=[1,2,1]", "parallel.spatial_slabs=[2,2,1]"},
          "use [2, 2, 1], or slabs [1, 2, 1]");
  refused("cosmoflow.yaml", 2, {"parallel.spatial=[2,1,1]", "data.damaged=skip"}, "use refuse");
  refused("unet_of_mlperf.yaml", 2, {"parallel.spatial=[1,1,9]"}, "9 parts of model.image_width");
  refused("unet_of_mlperf.yaml", 2,
          {"parallel.spatial=[2,1,1]", "model.norm=group", "model.norm_groups=2"}, "use 1");
  refused("deepcam.yaml", 2, {"parallel.spatial=[2,1,1]"}, "2 parts of the depth of an image = 1");
  refused("deepcam.yaml", 2, {"parallel.spatial=[1,1,34]"}, "model.image_width = 33; use 33");
}

TEST_F(SpatialLayout, CheckpointsGoOnWithSamplesCutOtherwise) {
  const Settings common{"reproducibility=layout", "parallel.spatial_slabs=[2,2,2]",
                        "checkpoint.every_steps=2", "checkpoint.async=false"};
  const auto run = [&](const char* name, int ranks, Settings more) {
    more.insert(more.end(), common.begin(), common.end());
    EXPECT_EQ(train("cosmoflow.yaml", name, ranks, more).exit_code, 0);
    return weights_of(name);
  };
  const auto expected = run("whole", 1, {});
  run("parts", 4, {"parallel.spatial=[2,2,1]", "train.steps=2"});

  EXPECT_EQ(run("parts", 2, {"parallel.spatial=[2,1,1]"}), expected);
}

}  // namespace
}  // namespace trireme::test
