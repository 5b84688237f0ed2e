// SPDX-License-Identifier: Apache-2.0
// Whole runs with a rank that computes wrong, a link that corrupts messages, or a flipped bit in
// the weights: each is named and ends before the next checkpoint.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class HealthTest : public RunTest {
 protected:
  // A run of trireme_faulty; `fault`: see test_faults.cpp.
  [[nodiscard]] CommandResult train_with(const std::string& fault, int ranks,
                                         const std::string& set) {
    return run_command(
        fmt::format("TRIREME_TEST_FAULT={} {} --oversubscribe -np {} {} train {}/gpt.yaml "
                    "--set run.directory={} --set data.validation_path= {}",
                    fault, TRIREME_MPIEXEC, ranks, TRIREME_FAULTY, data_directory(), run(), set));
  }
  [[nodiscard]] std::string run() const { return directory() + "/run"; }
};

TEST_F(HealthTest, ADeviceThatBeginsToComputeWrongIsNamedBeforeAnotherCheckpoint) {
  // A self test after nearly every step; the one before all steps finds nothing, though it
  // multiplies twice where a rank looks slow.
  const CommandResult result =
      train_with("what=product,kind=flip,bit=20,element=77,rank=1,test=2", 2,
                 "--set telemetry.health_minutes=0.0001 --set train.steps=5000 "
                 "--set checkpoint.every_steps=5000 --set train.log_every=5000");

  EXPECT_EQ(result.exit_code, 5) << result.output;
  EXPECT_THAT(result.output,
              AllOf(ContainsRegex("self test after step [1-9][0-9]*: rank 1 on [^ ]+ computes a "
                                  "wrong result for a known matmul \\(1 rows\\)"),
                    HasSubstr("telemetry.health_minutes"),
                    Not(ContainsRegex("rank 0 on [^ ]+ computes a wrong"))));
  EXPECT_FALSE(std::filesystem::exists(run() + "/checkpoints/step_00005000"));
}

TEST_F(HealthTest, ALinkThatCorruptsDataIsNamedBeforeTheFirstStep) {
  const CommandResult result = train_with("what=message,kind=flip,bit=3,element=5,rank=0", 2, "");

  EXPECT_EQ(result.exit_code, 5) << result.output;
  EXPECT_THAT(result.output,
              ContainsRegex("self test after step 0: data that rank 1 on [^ ]+ sends to rank 0 on "
                            "[^ ]+ arrives changed \\(1 words\\)"));
}

TEST_F(HealthTest, ABitThatFlipsInTheWeightsOfOneOfThreeIsNamedWithItsTensor) {
  const CommandResult result =
      train_with("what=weights,kind=flip,step=2,rank=1,element=5,name=blocks.1.mlp.contract.weight",
                 3, "--set train.global_batch=6 --set train.divergence_check_every=1");

  EXPECT_EQ(result.exit_code, 5) << result.output;
  EXPECT_THAT(
      result.output,
      ContainsRegex("replicas of the weights differ after step 2: \\[rank 1/3 [^]]+\\] "
                    "differs from the others in blocks.1.mlp.contract.weight of group data"));
}

}  // namespace
}  // namespace trireme::test
