// SPDX-License-Identifier: Apache-2.0
// A failure on GPUs must end the whole job at once, with one clear message and the right exit code.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/launch/fixture/emulated_fixture.h"
#include "tests/launch/fixture/launcher.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EmulatedFailure : public EmulatedTest {
 protected:
  CommandResult train(int ranks, const Settings& more = {}) {
    Settings set = gpt().set;
    set.insert(set.end(), more.begin(), more.end());
    return train_gpt("run", ranks, set);
  }
  // Two ranks with these visible GPUs.
  CommandResult train_with_gpus(const std::string& of_first, const std::string& of_second) {
    std::string train = fmt::format("{} train {}/gpt.yaml --set run.directory={}/run",
                                    TRIREME_BINARY, data_directory(), directory());
    for (const std::string& set : gpt({"parallel.data=2"}).set)
      train += " --set " + set;
    const auto rank = [&](const std::string& gpus) {
      return fmt::format("CUDA_VISIBLE_DEVICES={} exec {}", gpus, train);
    };
    return test::run_each(directory(), {rank(of_first), rank(of_second)});
  }
  static void expect_failure(const CommandResult& result, int code,
                             const testing::Matcher<std::string>& message) {
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output, message);
    EXPECT_LT(result.seconds, 30);
  }
};

TEST_F(EmulatedFailure, AMissingDriverIsNamed) {
  const ScopedVariable fault("TRIREME_EMULATED_FAULT", "no_driver");
  expect_failure(train(2), 2, AllOf(HasSubstr("device.type"), HasSubstr("driver")));
}

TEST_F(EmulatedFailure, AnOldDriverIsReportedWithBothVersions) {
  const ScopedVariable fault("TRIREME_EMULATED_FAULT", "old_driver");
  expect_failure(train(1), 2,
                 AllOf(HasSubstr("driver supports CUDA 12.2"), HasSubstr("needs 13.0")));
}

TEST_F(EmulatedFailure, AnOldGpuIsReportedWithItsCapability) {
  const ScopedVariable fault("TRIREME_EMULATED_FAULT", "old_gpu");
  expect_failure(train(1), 2, AllOf(HasSubstr("compute capability 7.0"), HasSubstr("8.0")));
}

TEST_F(EmulatedFailure, MoreRanksThanGpusAreRefusedUnlessTheyShare) {
  const ScopedVariable one("TRIREME_EMULATED_GPUS", "1");
  expect_failure(train(2), 2, AllOf(HasSubstr("2 ranks"), HasSubstr("device.share: true")));
}

TEST_F(EmulatedFailure, RanksThatAreGivenTheSameGpuAreRefusedUnlessTheyShare) {
  const CommandResult result = train_with_gpus("0", "0,1");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("have the same GPU"), HasSubstr("0000:01:00.0"),
                                   HasSubstr("device.share: true")));
}

TEST_F(EmulatedFailure, ALauncherMayShowEachRankAGpuOfItsOwn) {
  const CommandResult result = train_with_gpus("3", "1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(EmulatedFailure, SlicesOfOneGpuAreRefusedUnlessRanksShareIt) {
  const ScopedVariable slices("TRIREME_EMULATED_SLICES", "2");
  const CommandResult result = train_with_gpus("0", "1");
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("slices of one GPU (MIG; "), HasSubstr("0000:01:00.0"),
                                   HasSubstr("device.share: true")));
}

TEST_F(EmulatedFailure, SlicesOfDifferentGpusTrainTogether) {
  const ScopedVariable slices("TRIREME_EMULATED_SLICES", "2");
  const CommandResult result = train_with_gpus("1", "2");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(EmulatedFailure, RanksThatSeeTheSameSliceAreToldHowToGetTheirOwn) {
  const ScopedVariable slices("TRIREME_EMULATED_SLICES", "2");
  expect_failure(train(2), 2,
                 AllOf(HasSubstr("MIG 1g.4gb"), HasSubstr("CUDA_VISIBLE_DEVICES=MIG-")));
}

TEST_F(EmulatedFailure, AHostWithoutGpusIsNamed) {
  const ScopedVariable none("TRIREME_EMULATED_GPUS", "0");
  expect_failure(train(1), 2, AllOf(HasSubstr("device.type"), HasSubstr("GPU")));
}

TEST_F(EmulatedFailure, AnOldNcclIsReportedWithBothVersions) {
  const ScopedVariable fault("TRIREME_EMULATED_FAULT", "old_nccl");
  expect_failure(train(2), 2,
                 AllOf(HasSubstr("NCCL 2.27.3"), HasSubstr("2.28"), HasSubstr("LD_LIBRARY_PATH")));
}

TEST_F(EmulatedFailure, TooLargeActivationsNameSettingsThatFit) {
  const ScopedVariable small("TRIREME_EMULATED_MEMORY", "128");
  expect_failure(
      train(1, {"model.context=512", "model.hidden=128", "train.micro_batch=8"}), 2,
      AllOf(HasSubstr("the plan does not fit: a rank needs "), HasSubstr("GiB on GPU 0000:01:00.0"),
            HasSubstr("activations overflow"), HasSubstr("parameters "), HasSubstr("gradients "),
            HasSubstr("(now 8) would fit"), HasSubstr("train.recompute: full (now none)")));
}

TEST_F(EmulatedFailure, AnOptimizerThatDoesNotFitNamesZero) {
  const ScopedVariable small("TRIREME_EMULATED_MEMORY", "24");
  expect_failure(train(2, {"model.hidden=384", "model.layers=1", "train.micro_batch=1"}), 2,
                 AllOf(HasSubstr("the plan does not fit"), HasSubstr("comm.max_ctas: 8")));
}

TEST_F(EmulatedFailure, AnErrorOfACollectiveNamesGroupAndCall) {
  const ScopedVariable error("TRIREME_EMULATED_NCCL_ERROR", "data:5:1");
  expect_failure(train(2, {"parallel.data=2"}), 5,
                 AllOf(HasSubstr("group data"), HasSubstr("ncclRemoteError")));
}

// Ends the launcher and the NCCL ranks that wait for the dead one.
TEST_F(EmulatedFailure, AKilledRankEndsTheJobInSeconds) {
  std::string train = fmt::format("{} -np 3 {} train {}/gpt.yaml --set run.directory={}/run",
                                  TRIREME_MPIEXEC, TRIREME_BINARY, data_directory(), directory());
  for (const std::string& set : gpt({"train.global_batch=6", "train.steps=1000000",
                                     "train.log_every=100000", "parallel.data=3"})
                                    .set)
    train += " --set " + set;
  const std::string kill = "sleep 4; pkill -KILL -n -f run.directory=" + directory() + "/run";

  const CommandResult result = run_command("(" + kill + ") & " + train, 40);

  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.exit_code, 124) << "the job went on without a rank";
  EXPECT_LT(result.seconds, 20);
}

TEST_F(EmulatedFailure, AnOverflowThatNoSmallerLossScaleMendsEndsTheRun) {
  expect_failure(
      train(2, {"precision=fp16", "loss_scale.initial=16777216", "loss_scale.minimum=16777216"}), 6,
      AllOf(HasSubstr("step 1:"), HasSubstr("train.non_finite_limit")));
}

TEST_F(EmulatedFailure, SumsOfNvlinkSharpAreRefusedUnlessReproducibilityIsFast) {
  {
    const ScopedVariable nvls("NCCL_NVLS_ENABLE", "1");
    expect_failure(train(2, {"reproducibility=run"}), 2,
                   AllOf(HasSubstr("NCCL_NVLS_ENABLE=1"), HasSubstr("reproducibility: fast")));
    EXPECT_EQ(train(2, {"reproducibility=fast"}).exit_code, 0);
  }
  ASSERT_EQ(train_gpt("pinned", 2, gpt({"reproducibility=run"}).set).exit_code, 0);
  EXPECT_THAT(read_file(directory() + "/pinned/environment.json"), HasSubstr("NCCL_NVLS_ENABLE"));
}

TEST_F(EmulatedFailure, ProcessesOfAnotherLauncherDoNotTrainAlone) {
  const ScopedVariable rank("RANK", "1"), size("WORLD_SIZE", "4");
  expect_failure(train(1), 2, AllOf(HasSubstr("WORLD_SIZE=4"), HasSubstr("mpirun -np 4")));
}

}  // namespace
}  // namespace trireme::test
