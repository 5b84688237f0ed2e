// SPDX-License-Identifier: Apache-2.0
// The same for models of fields: CosmoFlow, and U-Nets and DeepCAM, whose skips cross the
// pipeline's cuts.
#include "tests/launch/fixture/fields_fixture.h"
#include "tests/launch/fixture/layout_fixture.h"

namespace trireme::test {
namespace {

class FieldsLayout : public LayoutTest {
 protected:
  static void SetUpTestSuite() {
    LayoutTest::SetUpTestSuite();
    write_field_models(data_directory());
  }
};

TEST_F(FieldsLayout, OfCosmoFlowChangesNoBit) {
  expect_same_bits({.config = "cosmoflow.yaml", .steps = 4},
                   {{2, "data=2 zero=1"},
                    {4, "data=4 zero=3"},
                    {2, "pipeline=2 recompute=full"},
                    {4, "data=2 pipeline=2 zero=2 schedule=interleaved chunks=2"}});
}

TEST_F(FieldsLayout, OfCosmoFlowInBf16ChangesNoBitEither) {
  expect_same_bits({.config = "cosmoflow.yaml", .set = {"precision=bf16"}, .steps = 4},
                   {{2, "data=2 zero=3"}, {4, "data=2 pipeline=2 zero=1"}});
}

TEST_F(FieldsLayout, OfSignalsChangesNoBit) {
  expect_same_bits({.config = "mlp.yaml", .steps = 4}, {{2, "data=2 zero=1"},
                                                        {4, "data=4 zero=3"},
                                                        {3, "pipeline=3 recompute=full"},
                                                        {4, "data=2 pipeline=2 zero=2"}});
}

TEST_F(FieldsLayout, OfAUNetChangesNoBit) {
  expect_same_bits({.config = "unet.yaml", .steps = 4},
                   {{2, "data=2 zero=2"},
                    {2, "pipeline=2 schedule=gpipe"},
                    {3, "pipeline=3"},
                    {6, "pipeline=6 recompute=full"},
                    {2, "pipeline=2 schedule=interleaved chunks=3"},
                    {4, "data=2 pipeline=2 zero=3"}});
}

TEST_F(FieldsLayout, OfAUNetInBf16ChangesNoBitEither) {
  expect_same_bits({.config = "unet.yaml", .set = {"precision=bf16"}, .steps = 4},
                   {{3, "pipeline=3"}, {4, "data=2 pipeline=2 zero=1"}});
}

TEST_F(FieldsLayout, OfAUNetOfVolumesChangesNoBit) {
  expect_same_bits({.config = "unet_of_volumes.yaml", .steps = 3},
                   {{4, "data=4 zero=1"}, {4, "pipeline=4"}});
}

TEST_F(FieldsLayout, OfAUNetWithInstanceNormAndStridesChangesNoBit) {
  expect_same_bits({.config = "unet_of_mlperf.yaml", .steps = 3},
                   {{2, "data=2 zero=2"},
                    {4, "data=4 zero=3"},
                    {3, "pipeline=3 recompute=full"},
                    {4, "data=2 pipeline=2 zero=1"}});
}

TEST_F(FieldsLayout, OfAUNetOnRandomPatchesThatTrainingChangesChangesNoBit) {
  expect_same_bits(
      {.config = "unet_of_mlperf.yaml",
       .set = {"data.inputs=[volume]", "data.target=parts", "data.patches=true",
               "data.foreground_share=0.5", "data.flips=[0.5,0.5,0.5]", "data.random_rot90=true",
               "data.brightness=[0.3,0.5]", "data.noise=[0.1,0.5]", "train.steps=4"},
       .steps = 4},
      {{2, "data=2"}, {4, "data=2 pipeline=2 zero=1"}});
}

TEST_F(FieldsLayout, OfSuchAUNetInBf16ChangesNoBitEither) {
  expect_same_bits({.config = "unet_of_mlperf.yaml", .set = {"precision=bf16"}, .steps = 3},
                   {{4, "data=4 zero=2"}, {4, "data=2 pipeline=2 zero=1"}});
}

TEST_F(FieldsLayout, OfAUNetWithGroupNormAndTanhChangesNoBit) {
  expect_same_bits({.config = "unet.yaml",
                    .set = {"model.norm=group", "model.norm_groups=2", "model.nonlinearity=tanh"},
                    .steps = 4},
                   {{4, "data=4 zero=2"}, {2, "pipeline=2"}});
}

TEST_F(FieldsLayout, OfAUNetWithGroupNormAndLeakyReluInBf16ChangesNoBit) {
  expect_same_bits({.config = "unet.yaml",
                    .set = {"model.norm=group", "model.norm_groups=2",
                            "model.nonlinearity=leaky_relu", "precision=bf16"},
                    .steps = 4},
                   {{2, "data=2 zero=3"}, {3, "pipeline=3 recompute=full"}});
}

TEST_F(FieldsLayout, OfAResNetOfVolumesChangesNoBit) {
  expect_same_bits({.config = "resnet_of_volumes.yaml", .steps = 4},
                   {{2, "data=2 zero=2"}, {4, "data=2 pipeline=2 zero=3"}});
}

TEST_F(FieldsLayout, OfDeepCamChangesNoBit) {
  expect_same_bits({.config = "deepcam.yaml", .steps = 4},
                   {{2, "data=2 zero=1"},
                    {4, "data=4 zero=3"},
                    {2, "pipeline=2 recompute=full"},
                    {4, "pipeline=4 schedule=gpipe"},
                    {5, "pipeline=5"},
                    {2, "pipeline=2 schedule=interleaved chunks=4"},
                    {4, "data=2 pipeline=2 zero=2"}});
}

TEST_F(FieldsLayout, OfDeepCamInBf16ChangesNoBitEither) {
  expect_same_bits({.config = "deepcam.yaml", .set = {"precision=bf16"}, .steps = 4},
                   {{2, "data=2 zero=3"}, {3, "pipeline=3 recompute=full"}});
}

}  // namespace
}  // namespace trireme::test
