// SPDX-License-Identifier: Apache-2.0
// Models of fields on emulated GPUs against the CPU engine.
#include "tests/launch/fixture/emulated_fixture.h"
#include "tests/launch/fixture/fields_fixture.h"

namespace trireme::test {
namespace {

class EmulatedFields : public EmulatedTest {
 protected:
  static void SetUpTestSuite() {
    EmulatedTest::SetUpTestSuite();
    write_field_models(data_directory());
  }
  static Run run(const std::string& config, Settings more) {
    more.insert(more.begin(), {"train.steps=3", "device.type=cuda"});
    return {.config = config, .set = more, .steps = 3};
  }
};

TEST_F(EmulatedFields, CosmoFlowAgreesWithTheCpuEngine) {
  expect_cpu_losses(run("cosmoflow.yaml", {}), {{1, ""}, {2, "data=2 zero=3"}, {2, "pipeline=2"}},
                    agreement);
}

TEST_F(EmulatedFields, AUNetAgreesWithTheCpuEngine) {
  expect_cpu_losses(run("unet.yaml", {}), {{1, ""}, {3, "pipeline=3"}}, agreement);
}

TEST_F(EmulatedFields, AUNetOfVolumesInLayoutModeHasTheBitsOfOneGpu) {
  expect_same_bits(run("unet_of_volumes.yaml", {"reproducibility=layout"}),
                   {{2, "pipeline=2 recompute=full"}, {2, "data=2 zero=2"}});
}

const Settings slabs{"reproducibility=layout", "parallel.spatial_slabs=[2,2,1]"};

TEST_F(EmulatedFields, AUNetCutInSpaceHasTheBitsOfOneGpu) {
  expect_same_bits(run("unet_of_volumes.yaml", slabs), {{4, "spatial=[2,2,1]"}});
}

TEST_F(EmulatedFields, CosmoFlowCutInSpaceHasTheBitsOfOneGpu) {
  expect_same_bits(run("cosmoflow.yaml", slabs), {{2, "spatial=[2,1,1]"}});
}

TEST_F(EmulatedFields, AUNetCutInSpaceAgreesWithTheCpuEngine) {
  expect_cpu_losses(run("unet.yaml", {}), {{2, "spatial=[1,2,1]"}}, agreement);
}

TEST_F(EmulatedFields, InstanceNormCutInSpaceHasTheBitsOfOneGpuAndTheLossesOfTheCpuEngine) {
  expect_same_bits(run("unet_of_mlperf.yaml", slabs), {{4, "spatial=[2,2,1]"}});
  expect_cpu_losses(run("unet_of_mlperf.yaml", {}), {{2, "spatial=[2,1,1]"}}, agreement);
}

TEST_F(EmulatedFields, DeepCamCutInSpaceHasTheBitsOfOneGpuAndTheLossesOfTheCpuEngine) {
  expect_same_bits(
      run("deepcam.yaml", {"reproducibility=layout", "parallel.spatial_slabs=[1,4,1]"}),
      {{2, "spatial=[1,2,1]"}});
  expect_cpu_losses(run("deepcam.yaml", {"optimizer.learning_rate=1e-4"}), {{2, "spatial=[1,1,2]"}},
                    agreement);
}

TEST_F(EmulatedFields, AUNetWithInstanceNormAndStridesAgreesWithTheCpuEngine) {
  expect_cpu_losses(run("unet_of_mlperf.yaml", {}), {{1, ""}, {2, "pipeline=2"}}, agreement);
}

TEST_F(EmulatedFields, AUNetWithGroupNormAndTanhAgreesWithTheCpuEngine) {
  expect_cpu_losses(
      run("unet.yaml", {"model.norm=group", "model.norm_groups=4", "model.nonlinearity=tanh"}),
      {{1, ""}}, agreement);
}

TEST_F(EmulatedFields, AResNetOfVolumesAgreesWithTheCpuEngine) {
  expect_cpu_losses(run("resnet_of_volumes.yaml", {}), {{1, ""}}, agreement);
}

TEST_F(EmulatedFields, DeepCamAgreesWithTheCpuEngine) {
  // A rate at which roundings do not grow.
  expect_cpu_losses(run("deepcam.yaml", {"optimizer.learning_rate=1e-4"}), {{1, ""}}, agreement);
}

TEST_F(EmulatedFields, DeepCamInLayoutModeHasTheBitsOfOneGpu) {
  expect_same_bits(run("deepcam.yaml", {"reproducibility=layout"}),
                   {{2, "data=2 zero=1"}, {2, "pipeline=2"}});
}

}  // namespace
}  // namespace trireme::test
