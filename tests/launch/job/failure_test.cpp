// SPDX-License-Identifier: Apache-2.0
// A failure must end the whole job at once, with one clear message and the right exit code.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "tests/launch/fixture/launcher.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FailureTest : public RunTest {
 protected:
  static void expect_failure(const CommandResult& result, int code,
                             const testing::Matcher<std::string>& message) {
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output, message);
    EXPECT_LT(result.seconds, 20);
    // The message is last, after any output of a launcher.
    const std::string output = without_banner(result.output);
    const std::string last = output.substr(std::min(output.rfind("error: "), output.size()));
    for (const char* const word : {"mpirun", "MPI_ABORT", "ORTE", "PMIX", "-----"})
      EXPECT_THAT(last, Not(HasSubstr(word)));
  }
};

TEST_F(FailureTest, AMisspelledKeyNamesTheNearestOne) {
  expect_failure(train_gpt("run", 2, {"model.hiden=64"}), 2,
                 AllOf(HasSubstr("model.hiden"), HasSubstr("model.hidden")));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/run"));
}

TEST_F(FailureTest, ABatchWithoutAMicroBatchForEachRankSaysWhatWouldWork) {
  expect_failure(train_gpt("run", 3, {"train.micro_batch=4"}), 2,
                 AllOf(HasSubstr("train.global_batch"), HasSubstr("fewer than parallel.data = 3"),
                       HasSubstr("use global_batch 12")));
}

TEST_F(FailureTest, RanksThatTheModelHasNoUseForAreRefusedNotIgnored) {
  expect_failure(train_resnet("run", 2, {"parallel.context=2"}), 2,
                 HasSubstr("parallel.context=2: 2 with model.family: resnet"));
  expect_failure(train_gpt("run", 2, {"parallel.expert=2"}), 2, HasSubstr("parallel.expert"));
}

TEST_F(FailureTest, AModeThatTheModelCannotBeSplitForIsRefusedBeforeTraining) {
  expect_failure(train_gpt("run", 2, {"parallel.tensor=2", "model.heads=1"}), 2,
                 HasSubstr("parallel.tensor=2: 2 does not divide model.heads = 1; use 1"));
  expect_failure(train_resnet("run", 2, {"parallel.pipeline=2", "parallel.schedule=zero-bubble"}),
                 2, HasSubstr("use gpipe, 1f1b or interleaved"));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/run"));
}

TEST_F(FailureTest, RanksOfDifferentConfigsAreRefusedNamingTheLine) {
  const std::string train = "train " + data_directory() +
                            "/gpt.yaml --set run.directory=" + directory() +
                            "/run --set optimizer.weight_decay=";
  const CommandResult result = run_each(
      directory(), {TRIREME_BINARY " " + train + "0.1", TRIREME_BINARY " " + train + "0.2"});

  expect_failure(result, 2,
                 AllOf(HasSubstr("ranks disagree on the resolved config: line "),
                       HasSubstr("weight_decay: 0.1\" on rank 0"),
                       HasSubstr("weight_decay: 0.2\" on rank 1")));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/run"));
}

TEST_F(FailureTest, AMissingConfigFileIsNamed) {
  const std::string file = directory() + "/none/a.yaml";
  expect_failure(trireme("train " + file), 2, HasSubstr(file));
}

TEST_F(FailureTest, UsageErrorsExitWithTwo) {
  EXPECT_EQ(trireme("").exit_code, 2);
  EXPECT_EQ(trireme("trane x").exit_code, 2);
  EXPECT_EQ(trireme("train a b c").exit_code, 2);
}

TEST_F(FailureTest, AMissingDataSetIsADataError) {
  const std::string path = directory() + "/none";
  expect_failure(train_gpt("run", 2, {"data.path=" + path}), 3, HasSubstr(path));
}

TEST_F(FailureTest, ADataSetOfAnotherKindIsADataError) {
  expect_failure(train_gpt("run", 0, {"data.path=" + data_directory() + "/images/train"}), 3,
                 HasSubstr("images"));
}

TEST_F(FailureTest, ATruncatedShardIsADataError) {
  const std::string copy = directory() + "/cut";
  std::filesystem::copy(data_directory() + "/text/train", copy,
                        std::filesystem::copy_options::recursive);
  const std::string shard = copy + "/shard_00000.h5";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) / 2);

  expect_failure(train_gpt("run", 2, {"data.path=" + copy}), 3, HasSubstr("shard_00000.h5"));
}

TEST_F(FailureTest, ATokenOutsideTheVocabularyIsNamed) {
  expect_failure(train_gpt("run", 2, {"model.vocabulary=100"}), 3, HasSubstr("vocabulary"));
}

TEST_F(FailureTest, ADataSetSmallerThanOneGlobalBatchIsRefused) {
  expect_failure(train_gpt("run", 2, {"train.global_batch=4000"}), 3, HasSubstr("4000"));
}

TEST_F(FailureTest, AnOverflowThatNoSmallerLossScaleMendsEndsTheRunWithSix) {
  expect_failure(
      train_gpt("run", 2,
                {"precision=fp16", "loss_scale.initial=16777216", "loss_scale.minimum=16777216"}),
      6, AllOf(HasSubstr("step 1:"), HasSubstr("train.non_finite_limit")));
}

TEST_F(FailureTest, ALossThatIsNotFiniteEndsTheRunWithSix) {
  expect_failure(train_gpt("run", 2,
                           {"optimizer.learning_rate=1000", "train.clip_norm=0", "train.steps=40",
                            "optimizer.name=sgd", "optimizer.momentum=0.9"}),
                 6, AllOf(HasSubstr("step "), HasSubstr("optimizer.learning_rate")));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/run/weights.safetensors"));
}

TEST_F(FailureTest, ARunDirectoryThatHoldsARunIsRefused) {
  ASSERT_EQ(train_gpt("run", 0, {"train.steps=2"}).exit_code, 0);
  const std::string weights = weights_of("run");

  expect_failure(train_gpt("run", 2), 2, HasSubstr("run.directory"));
  EXPECT_TRUE(weights_of("run") == weights);
}

TEST_F(FailureTest, APlaceThatCannotBeWrittenIsRefusedBeforeTraining) {
  const CommandResult result =
      trireme("train " + data_directory() + "/gpt.yaml --set run.directory=/proc/trireme_run", 2);

  expect_failure(result, 2, HasSubstr("/proc/trireme_run"));
}

// A file size limit simulates the full disk.
TEST_F(FailureTest, AFullDiskWhileLoggingEndsTheJobNamingTheFile) {
  const CommandResult result =
      run_command("ulimit -f 16; " TRIREME_BINARY " train " + data_directory() +
                  "/gpt.yaml --set train.steps=200 --set run.directory=" + directory() + "/run");

  expect_failure(result, 1, HasSubstr("metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/run/weights.safetensors"));
}

TEST_F(FailureTest, SavesThatFailEndTheRunWithSevenAndALineEachInTheMetrics) {
  const std::string train =
      TRIREME_BINARY " train " + data_directory() + "/gpt.yaml --set run.directory=" + directory();
  const CommandResult limit = run_command(
      "ulimit -f 64; " + train + "/run --set train.steps=9 --set checkpoint.every_steps=1");

  expect_failure(limit, 7,
                 AllOf(HasSubstr("checkpoint.failed_limit: 3 save(s) in a row failed"),
                       HasSubstr("rank_00000.h5")));
  const std::string metrics = read_file(directory() + "/run/metrics.jsonl");
  EXPECT_THAT(metrics, AllOf(HasSubstr("\"failed_saves\":1,"), HasSubstr("\"failed_saves\":3,"),
                             Not(HasSubstr("\"failed_saves\":4,"))));

  // Without a checkpoint a restart would repeat the failure, so the exit code must not ask for one.
  expect_failure(
      run_command("ulimit -f 64; " + train + "/stopped --set run.deadline_minutes=0.00001"), 7,
      HasSubstr("the last checkpoint of the run could not be written: step "));
}

// Checkpoints are three times as large.
TEST_F(FailureTest, TrainingThatIsDoneIsKeptOnADiskThatTakesItsWeightsButNoCheckpoint) {
  const std::string set =
      " --set model.layers=8 --set train.steps=9 --set checkpoint.every_steps=3";
  const std::string train =
      TRIREME_BINARY " train " + data_directory() + "/gpt.yaml --set run.directory=" + directory();
  ASSERT_EQ(run_command(train + "/roomy" + set).exit_code, 0);
  const auto blocks = std::filesystem::file_size(directory() + "/roomy/weights.safetensors") / 512;

  const CommandResult full =
      run_command(fmt::format("ulimit -f {}; {}/full{}", blocks * 5 / 4, train, set));

  expect_failure(full, 7,
                 AllOf(HasSubstr("weights written to "), HasSubstr("final loss"),
                       HasSubstr("the last checkpoint of the run could not be written: step 9"),
                       HasSubstr("all steps are done, and only more of them would need it")));
  EXPECT_TRUE(weights_of("full") == weights_of("roomy"));
  EXPECT_EQ(trireme("replay " + directory() + "/full").exit_code, 0);
  const CommandResult again = run_command(train + "/full" + set);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("nothing is left to do"));
}

TEST_F(FailureTest, ADataErrorOnOneRankEndsTheOthersThatWait) {
  // Only the loader of the rank that meets the damaged half finds it: the shard was cut after it
  // was opened.
  const std::string copy = directory() + "/late";
  std::filesystem::copy(data_directory() + "/text/train", copy,
                        std::filesystem::copy_options::recursive);
  const std::string cut = "sleep 3; truncate -s 3000 " + copy + "/shard_00000.h5";
  const std::string train = std::string(TRIREME_MPIEXEC) + " -np 2 " TRIREME_BINARY " train " +
                            data_directory() +
                            "/gpt.yaml --set train.steps=1000000 --set lr_schedule.warmup_steps=0 "
                            "--set train.log_every=100000" +
                            " --set run.directory=" + directory() + "/run --set data.path=" + copy;

  expect_failure(run_command("(" + cut + ") & " + train, 40), 3,
                 AllOf(HasSubstr("shard_00000.h5"), HasSubstr("rank ")));
}

TEST_F(FailureTest, AKilledRankEndsTheJobInSeconds) {
  const std::string train = std::string(TRIREME_MPIEXEC) + " -np 3 " TRIREME_BINARY " train " +
                            data_directory() +
                            "/gpt.yaml --set train.global_batch=6 --set train.steps=1000000 --set "
                            "train.log_every=100000" +
                            " --set run.directory=" + directory() + "/run";
  const std::string kill = "sleep 3; pkill -KILL -n -f run.directory=" + directory() + "/run";

  const CommandResult result = run_command("(" + kill + ") & " + train, 40);

  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.exit_code, 124) << "the job went on without a rank";
}

TEST_F(FailureTest, ErrorsOfAllRanksAreReportedOnce) {
  const CommandResult result = train_gpt("run", 4, {"model.heads=5"});

  const std::string word = "model.heads";
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.output.find("error:"), result.output.rfind("error:")) << result.output;
}

TEST_F(FailureTest, GenerateRefusesARunOfAnotherFamily) {
  ASSERT_EQ(train_resnet("cnn", 0, {"train.steps=2"}).exit_code, 0);

  expect_failure(trireme("generate " + directory() + "/cnn"), 2, HasSubstr("resnet"));
}

TEST_F(FailureTest, EvalRefusesWeightsOfAnotherShape) {
  ASSERT_EQ(train_gpt("a", 0, {"train.steps=2"}).exit_code, 0);

  expect_failure(trireme("eval " + directory() + "/a --set model.hidden=64"), 4,
                 AllOf(HasSubstr("weights.safetensors"), HasSubstr("embedding")));
}

}  // namespace
}  // namespace trireme::test
