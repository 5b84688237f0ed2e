// SPDX-License-Identifier: Apache-2.0
// Samples that several ranks share, cut along one, two or three axes with odd extents, against one
// rank with the same slabs.
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

TEST_F(SpatialLayout, OfAnyNumberOfRanksHasTheLossesOfOne) {
  expect_same_losses({.config = "unet.yaml", .steps = 4},
                     {{3, "spatial=[1,3,1]"}, {3, "spatial=[1,1,3]"}, {5, "spatial=[1,5,1]"}}, 1e-4);
}

}  // namespace
}  // namespace trireme::test
