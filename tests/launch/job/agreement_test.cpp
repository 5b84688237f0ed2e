// SPDX-License-Identifier: Apache-2.0
// Two ranks with one config text and different working directories, so that relative paths name
// different files: as with a wrong copy on one host.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/launch/fixture/launcher.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class AgreementTest : public RunTest {
 protected:
  // Both ranks see the same data at first.
  void SetUp() override {
    for (const std::string place : {"a", "b"}) {
      fs::create_directories(at(place));
      fs::copy_file(data_directory() + "/gpt.yaml", at(place + "/gpt.yaml"));
      fs::create_directory(at(place + "/text"));
      for (const std::string split : {"train", "validation"})
        fs::create_directory_symlink(data_directory() + "/text/" + split,
                                     at(place + "/text/" + split));
    }
  }
  [[nodiscard]] std::string at(const std::string& path) const { return directory() + "/" + path; }

  // Rank 0 in a, rank 1 in b.
  [[nodiscard]] CommandResult train_both(const std::string& arguments,
                                         const std::string& other_program = TRIREME_BINARY) const {
    const std::string train = "train gpt.yaml " + arguments;
    return run_each(directory(), {fmt::format("cd {}; {} {}", at("a"), TRIREME_BINARY, train),
                                  fmt::format("cd {}; {} {}", at("b"), other_program, train)});
  }
  // A run of six steps in each directory.
  void train_each(const std::string& name) const {
    for (const std::string place : {"a", "b"}) {
      const CommandResult result = run_command(
          fmt::format("cd {} && {} train gpt.yaml --set run.seed={} --set run.directory={} --set "
                      "checkpoint.every_steps=6",
                      at(place), TRIREME_BINARY, place == "a" ? 1 : 2, name));
      ASSERT_EQ(result.exit_code, 0) << result.output;
    }
  }
  void expect_refused(const CommandResult& result, int code, const std::string& what,
                      const std::string& path) const {
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output,
                AllOf(HasSubstr(what), ContainsRegex("rank 0 on [^ ]+ has "),
                      ContainsRegex("rank 1 on [^ ]+ has "), HasSubstr(" in " + at("a/" + path)),
                      HasSubstr(" in " + at("b/" + path))));
  }
};

TEST_F(AgreementTest, CopiesOfTheSameInputsAreAccepted) {
  const std::string text = data_directory() + "/text";
  fs::remove_all(at("b/text"));
  fs::copy(text, at("b/text"), fs::copy_options::recursive);
  ASSERT_EQ(train_gpt("source", 0).exit_code, 0);
  for (const std::string place : {"a", "b"})
    fs::copy_file(at("source/weights.safetensors"), at(place + "/begin.safetensors"));

  const CommandResult result = train_both(
      "--set train.initial_weights=begin.safetensors "
      "--set run.directory=" +
      at("run"));

  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(AgreementTest, OtherTrainingOrValidationDataIsRefusedBeforeAnythingIsWritten) {
  std::string words;
  for (int i = 0; i < 600; ++i)
    words += fmt::format("stroke {} ", i * i);
  write_file(at("text.txt"), words);
  const CommandResult packed = trireme(fmt::format(
      "data pack-text --quiet --out {0}/other --validation 0.1 {0}/text.txt", directory()));
  ASSERT_EQ(packed.exit_code, 0) << packed.output;
  for (const std::string split : {"train", "validation"}) {
    SCOPED_TRACE(split);
    const std::string path = "text/" + split;
    fs::rename(at("b/" + path), at("kept"));
    fs::create_directory_symlink(at("other/" + split), at("b/" + path));

    const CommandResult result = train_both("--set run.directory=" + at("run"));

    const std::string what = split == "train" ? "data.path: " : "validation data: ";
    expect_refused(result, 3, what + path + ": ranks disagree: ", path);
    EXPECT_THAT(result.output, ContainsRegex("fingerprint [0-9a-f]+ \\([0-9]+ samples\\)"));
    EXPECT_FALSE(fs::exists(at("run")));
    fs::remove(at("b/" + path));
    fs::rename(at("kept"), at("b/" + path));
  }
}

TEST_F(AgreementTest, OtherInitialWeightsAreRefusedBeforeAnythingIsWritten) {
  train_each("source");

  const std::string checkpoint = "source/checkpoints/step_00000006";
  for (const std::string& path : {std::string("source"), checkpoint}) {
    SCOPED_TRACE(path);
    const CommandResult result =
        train_both("--set run.directory=" + at("run") + " --set train.initial_weights=" + path);

    const std::string read = path == "source" ? "source/weights.safetensors" : checkpoint;
    expect_refused(result, 4, "train.initial_weights: " + read + ": ranks disagree: ", read);
    EXPECT_FALSE(fs::exists(at("run")));
  }
}

TEST_F(AgreementTest, AnotherRunsCheckpointIsRefusedAndNeitherRunChanged) {
  train_each("run");
  const std::string weights = read_file(at("a/run/weights.safetensors")),
                    metrics = read_file(at("a/run/metrics.jsonl"));

  const CommandResult result = train_both(
      "--set run.seed=1 --set run.directory=run --set checkpoint.every_steps=6 --set "
      "train.steps=8");

  const std::string path = "run/checkpoints/step_00000006";
  expect_refused(result, 4, path + ": ranks disagree: ", path);
  EXPECT_TRUE(read_file(at("a/run/weights.safetensors")) == weights);
  EXPECT_EQ(read_file(at("a/run/metrics.jsonl")), metrics);
}

#ifdef TRIREME_OTHER_BUILD
TEST_F(AgreementTest, ABuildWithCudaBesideOneWithoutIsRefused) {
  const CommandResult result =
      train_both("--set device.type=cpu --set run.directory=" + at("run"), TRIREME_OTHER_BUILD);

  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("the program: ranks disagree: rank 0 on "),
                    HasSubstr(std::string(" without the cuda back end in ") + TRIREME_BINARY),
                    HasSubstr(std::string(" with the cuda back end in ") + TRIREME_OTHER_BUILD)));
  EXPECT_FALSE(fs::exists(at("run")));
}
#endif

}  // namespace
}  // namespace trireme::test
