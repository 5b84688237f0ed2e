// SPDX-License-Identifier: Apache-2.0
// Replayed steps on other layouts match the run's certificate; differences are named.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "tests/launch/fixture/run_fixture.h"
#include "tests/support/command.h"

namespace trireme {
namespace {

using namespace test;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReplayTest : public RunTest {
 protected:
  [[nodiscard]] std::string run() const { return directory() + "/run"; }
  void train(int ranks, std::vector<std::string> set) {
    set.insert(set.end(), {"checkpoint.every_steps=2", "checkpoint.keep=5"});
    const CommandResult result = train_gpt("run", ranks, set);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  CommandResult replay(const std::string& arguments, int ranks = 0) {
    return trireme("replay " + run() + " " + arguments, ranks);
  }
};

TEST_F(ReplayTest, AStepHasTheSameBitsOnEveryLayoutAndTheRunStaysAsItIs) {
  train(2, {"reproducibility=layout", "parallel.tensor_blocks=2", "parallel.zero=1"});
  const auto files = [&] {
    std::map<std::string, fs::file_time_type> all;
    for (const auto& entry : fs::recursive_directory_iterator(run()))
      if (entry.is_regular_file()) all.emplace(entry.path(), entry.last_write_time());
    return all;
  };
  const auto before = files();

  const CommandResult own = replay("--step 4", 2),
                      tensor = replay("--step 4 --steps 2 --set parallel.tensor=2", 2),
                      alone = replay("--step 1");

  EXPECT_EQ(own.exit_code, 0) << own.output;
  EXPECT_THAT(
      own.output,
      HasSubstr("3 to 4: the bits of the run, in samples, loss, gradient norm and weights"));
  EXPECT_EQ(tensor.exit_code, 0) << tensor.output;
  EXPECT_THAT(tensor.output, AllOf(HasSubstr("step_00000002"), HasSubstr("3 to 5: the bits"),
                                   HasSubstr("data 1 x tensor 2")));
  EXPECT_EQ(alone.exit_code, 0) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("at the beginning of the run"));
  EXPECT_EQ(files(), before);
}

TEST_F(ReplayTest, ADifferentStepIsNamedWithItsFirstDifference) {
  train(0, {"telemetry.tensor_digests=true"});

  const CommandResult other = replay("--step 4 --set optimizer.learning_rate=0.01");
  EXPECT_EQ(other.exit_code, 4) << other.output;
  EXPECT_THAT(other.output,
              AllOf(HasSubstr("step 3: another digest of weights"), HasSubstr("; first in "),
                    HasSubstr("The replay was run with optimizer.learning_rate=0.01")));
  EXPECT_THAT(other.output,
              AllOf(HasSubstr("replay " + run() + " --step 3 --record right --values\n"),
                    HasSubstr("replay " + run() +
                              " --step 3 --set optimizer.learning_rate=0.01 --record wrong "
                              "--values --against right")));
  const CommandResult seed = replay("--step 4 --set model.dropout=0.5");
  EXPECT_THAT(seed.output, HasSubstr("step 3: another loss: "));
}

// A run with other instruction sets is not said to have had a fault.
TEST_F(ReplayTest, OtherInstructionSetsAreNamedFirst) {
  train(0, {});
  const std::string before = "DNNL_MAX_CPU_ISA=SSE41 " TRIREME_BINARY " replay " + run();

  const CommandResult other = run_command(before + " --step 4 --set model.dropout=0.5");
  ASSERT_EQ(run_command(fmt::format("DNNL_MAX_CPU_ISA=SSE41 {} train {}/gpt.yaml --set run.seed=9 "
                                    "--set run.directory={}/old",
                                    TRIREME_BINARY, data_directory(), directory()))
                .exit_code,
            0);
  const CommandResult both = replay("--against " + directory() + "/old");

  EXPECT_EQ(other.exit_code, 4) << other.output;
  const std::size_t variable = other.output.find("DNNL_MAX_CPU_ISA: \"SSE41\" here, unset there.");
  EXPECT_LT(variable, other.output.find("model.dropout=0.5")) << other.output;
  EXPECT_THAT(other.output, Not(HasSubstr("the run had a temporary fault")));
  EXPECT_THAT(both.output,
              HasSubstr("environment        DNNL_MAX_CPU_ISA: unset here, \"SSE41\" there"));
}

TEST_F(ReplayTest, MessagesOf16BitsAreReplayedAndOthersAreNamed) {
  train(2, {"precision=bf16", "parallel.zero=1", "parallel.reduce_dtype=compute"});

  const CommandResult own = replay("--step 4", 2),
                      other = replay("--step 4 --set parallel.reduce_dtype=fp32", 2);

  EXPECT_EQ(own.exit_code, 0) << own.output;
  EXPECT_THAT(own.output, HasSubstr("3 to 4: the bits of the run"));
  EXPECT_EQ(other.exit_code, 4) << other.output;
  EXPECT_THAT(other.output, AllOf(HasSubstr("step 3: another gradient norm"),
                                  HasSubstr("run with parallel.reduce_dtype=fp32"),
                                  Not(HasSubstr("the run had a temporary fault"))));
}

// Changed settings are also reported as changed settings, not as other devices.
TEST_F(ReplayTest, OtherSettingsAndForeignCheckpointsAreReported) {
  train(0, {"train.steps=4"});
  train(0, {"train.steps=6", "optimizer.learning_rate=0.01"});

  const CommandResult settings = replay("--step 3");
  EXPECT_EQ(settings.exit_code, 4) << settings.output;
  EXPECT_THAT(settings.output, AllOf(HasSubstr("config.yaml has changed since the run did"),
                                     Not(HasSubstr("the run had a temporary fault"))));
  EXPECT_EQ(replay("--step 5").exit_code, 0);

  const std::string checkpoints = run() + "/checkpoints/";
  ASSERT_EQ(train_gpt("other", 0, {"run.seed=99", "checkpoint.every_steps=2"}).exit_code, 0);
  fs::remove_all(checkpoints + "step_00000004");
  fs::copy(directory() + "/other/checkpoints/step_00000004", checkpoints + "step_00000004");
  const CommandResult replaced = replay("--step 5");
  EXPECT_EQ(replaced.exit_code, 4) << replaced.output;
  EXPECT_THAT(replaced.output,
              AllOf(HasSubstr("step_00000004 is not what the run had after step 4: "),
                    Not(HasSubstr("the run had a temporary fault"))));
}

TEST_F(ReplayTest, WhatCannotBeReplayedIsRefused) {
  train(0, {});
  const auto refuses = [&](const std::string& arguments, int code, const std::string& message) {
    const CommandResult result = replay(arguments);
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(message));
  };
  refuses("--step 7", 2, "has steps 1 to 6");
  refuses("--step 5 --steps 3", 2, "has steps 1 to 6");
  refuses("--step 3 --set data.path=" + data_directory() + "/text/validation", 3, "fingerprint");
  refuses("--step 3 --set data.path=" + data_directory() + "/moved", 3,
          "does not exist; name its new place with --set data.path=DIRECTORY");
  refuses("--step 0", 2, "0 is not a whole number from 1 to ");
  const CommandResult wide = trireme("replay " + run() + " --step 3", 2);
  EXPECT_EQ(wide.exit_code, 0) << wide.output;
  EXPECT_THAT(wide.output, HasSubstr("promises the same bits on the run's own layout only"));

  const std::string path = run() + "/certificate.jsonl";
  std::string text = read_file(path);
  text.replace(text.find("\"step\":3,\"loss\":\"0x1.") + 21, 1, "f");
  write_file(path, text);
  refuses("--step 3", 4, "certificate.jsonl:");
  fs::remove(path);
  refuses("--step 3", 2, "certificate.jsonl: there is no such file");
}

TEST_F(ReplayTest, TheFirstTensorThatDiffersIsNamedWithItsRankAndBothValues) {
  train(2,
        {"reproducibility=layout", "parallel.tensor_blocks=2", "train.divergence_check_every=0"});
  const std::string right = directory() + "/right", wrong = directory() + "/wrong";
  const std::string step =
      "replay " + run() + " --step 4 --set parallel.tensor=2 --values --record ";
  ASSERT_EQ(replay("--step 4 --values --record " + right).exit_code, 0);

  const CommandResult same = trireme(step + wrong + " --against " + right, 2);
  EXPECT_EQ(same.exit_code, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("no tensor differs from " + right));
  const CommandResult other = run_command(fmt::format(
      "TRIREME_TEST_FAULT=what=activation,kind=flip,step=4,rank=1,layer=2,micro_batch=3,element=7 "
      "{} -np 2 {} {}{} --against {}",
      TRIREME_MPIEXEC, TRIREME_FAULTY, step, wrong, right));
  EXPECT_EQ(other.exit_code, 4) << other.output;
  EXPECT_THAT(other.output,
              AllOf(HasSubstr("step 4, micro-batch 3: forward, the output of a layer, layer 2, "
                              "blocks.1 differs on rank 1: element 7 is "),
                    HasSubstr("likely a sum of the tensor group")));

  const CommandResult without = replay("--step 4 --against " + right);
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.output, HasSubstr("add --record DIRECTORY"));
  const CommandResult none = replay("--step 4 --record " + wrong + " --against " + run());
  EXPECT_THAT(none.output, HasSubstr("is a run, but holds no recording of a step"));
  const CommandResult steps = replay("--step 5 --record " + wrong + " --against " + right);
  EXPECT_EQ(steps.exit_code, 2) << steps.output;
  EXPECT_THAT(steps.output, HasSubstr("has steps 4 to 4, but steps 5 to 5 are replayed"));
  const CommandResult itself = replay("--step 4 --record " + right + "/ --against " + right);
  EXPECT_EQ(itself.exit_code, 2) << itself.output;
  EXPECT_THAT(itself.output, HasSubstr("which would be overwritten"));
  EXPECT_THAT(replay("--step 4 --record " + run()).output, HasSubstr("which is not a recording"));
}

TEST_F(ReplayTest, UnrepeatableDifferencesAreCalledTransient) {
  const CommandResult trained = run_command(fmt::format(
      "TRIREME_TEST_FAULT=what=gradient,kind=flip,step=3,rank=0,layer=1,micro_batch=1 {} train "
      "{}/gpt.yaml --set run.directory={}",
      TRIREME_FAULTY, data_directory(), run()));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;

  const CommandResult result =
      run_command(fmt::format("{} replay {} --step 3", TRIREME_FAULTY, run()));

  EXPECT_EQ(result.exit_code, 4) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("step 3: another gradient norm"),
                                   HasSubstr("the run had a temporary fault")));
}

}  // namespace
}  // namespace trireme
