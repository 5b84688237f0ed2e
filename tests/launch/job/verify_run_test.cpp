// SPDX-License-Identifier: Apache-2.0
// Findings of `trireme verify-run` in a run's files, and between two runs.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VerifyRunTest : public RunTest {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return directory() + "/" + name; }
  void train(const std::string& name, const std::vector<std::string>& set = {}, int ranks = 0) {
    const CommandResult result = train_gpt(name, ranks, set);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
  // The output of a command that must succeed.
  static std::string output(const std::string& arguments) {
    const CommandResult result = trireme(arguments, 0);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
    return result.output;
  }
  // `message`: a part of the output, or a matcher.
  template <typename Message>
  static void expect_refusal(const std::string& arguments, int code, const Message& message) {
    const CommandResult result = trireme(arguments, 0);
    EXPECT_EQ(result.exit_code, code) << arguments << "\n" << result.output;
    if constexpr (std::is_convertible_v<Message, std::string>)
      EXPECT_THAT(result.output, HasSubstr(message));
    else
      EXPECT_THAT(result.output, message);
  }
};

TEST_F(VerifyRunTest, ACertificateHoldsUntilAFileOfTheRunChanges) {
  train("run", {"checkpoint.every_steps=4"});
  train("other", {"run.seed=2"});
  const std::string run = path("run");
  EXPECT_THAT(output("replay " + run),
              AllOf(HasSubstr("certificate          steps 1 to "),
                    HasSubstr("has the losses and gradient norms of all"),
                    HasSubstr("weights              are those of step"),
                    HasSubstr("every checksum agrees, and every tensor with the certificate")));

  train("undigested", {"telemetry.weight_digests=0"});
  expect_refusal("replay " + run + " --against " + path("undigested"), 2,
                 "telemetry.weight_digests = 32");
  expect_refusal("replay " + path("nowhere"), 2, "no such directory");
  fs::copy(run, path("changed"), fs::copy_options::recursive);
  std::ofstream(path("changed/config.yaml"), std::ios::app) << "# a remark\n";
  expect_refusal("replay " + path("changed"), 4, "config.yaml: is not that of the last start");
  expect_refusal("replay " + run + " --against " + path("other"), 4, "config.yaml        run.seed");
  fs::copy(path("other/weights.safetensors"), path("changed/weights.safetensors"),
           fs::copy_options::overwrite_existing);
  expect_refusal("replay " + path("changed"), 4, "weights: differ in ");
}

TEST_F(VerifyRunTest, EveryEditOfCertifiedFilesIsReported) {
  train("run", {"train.eval_every=2", "train.ema_decay=0.5", "checkpoint.every_steps=4"});
  train("run", {"train.eval_every=2", "train.ema_decay=0.5", "train.steps=8"});
  const std::string command = "replay " + path("run");
  const auto refused = [&](const std::string& file, const std::string& changed,
                           const std::string& message) {
    const std::string place = path("run/" + file), text = read_file(place);
    ASSERT_NE(changed, text);
    write_file(place, changed);
    expect_refusal(command, 4, message);
    write_file(place, text);
  };
  const auto with = [&](const std::string& file, const std::string& key, const std::string& value) {
    std::string text = read_file(path("run/" + file));
    return text.insert(text.find(key) + key.size(), value);
  };
  const auto without = [&](const std::string& file, const std::string& beginning) {
    std::string text = read_file(path("run/" + file));
    const std::size_t at = text.find(beginning);
    return text.erase(at, text.find('\n', at) + 1 - at);
  };
  ASSERT_THAT(output(command), AllOf(HasSubstr("averages             are those of step 8"),
                                     Not(HasSubstr("not certified"))));

  refused("metrics.jsonl", with("metrics.jsonl", "\"grad_norm\":", "9"),
          "metrics.jsonl: line 1 has grad_norm 9");
  refused("metrics.jsonl", with("metrics.jsonl", "\"validation_loss\":", "9"),
          "has validation_loss 9");
  refused("metrics.jsonl", with("metrics.jsonl", "\"lr\":", "9"),
          "line 1 was changed: the XXH3-64 of the line is 0x");
  refused("metrics.jsonl", without("metrics.jsonl", "{\"step\":4"),
          "line 5 follows a removed line, of step 4");
  refused("config.user.yaml", with("config.user.yaml", "seed:", " 1"),
          "config.user.yaml: is not that of the last start: the XXH3-64 of the file is 0x");

  refused("environment.json", with("environment.json", "\"ranks\":", " 1"),
          "environment.json: is not that of the last start");
  refused("data.json", with("data.json", "\"fingerprint\": \"", "1"), "data.json: lacks the run's");
  refused("ranks.jsonl", with("ranks.jsonl", "\"wall_s\":", "9"), "ranks.jsonl: was changed");
  refused("console.log", with("console.log", "final loss ", "9"), "console.log: was changed");
  refused("console.log", "", "console.log: was changed");
  std::string weights = read_file(path("run/weights.safetensors"));
  const std::string step = "\"step\":\"8\"";
  ASSERT_NE(weights.find(step), std::string::npos);
  refused("weights.safetensors", weights.replace(weights.find(step), step.size(), "\"step\":\"9\""),
          "weights: have the step 9");

  const std::string whole = read_file(path("run/certificate.jsonl"));
  refused("certificate.jsonl", whole.substr(0, whole.find("{\"step\":4")), "not certified");
  refused("certificate.jsonl", whole.substr(0, whole.rfind("{\"step\"")),
          "weights: of step 8 are not certified");
  for (const char* const line :
       {"{\"tensors_after\":4", "{\"start_after\":6", "{\"evaluation_after\":4"})
    refused("certificate.jsonl", without("certificate.jsonl", line),
            "was changed, or a line before it was changed or removed");

  std::string averages = read_file(path("run/weights_average.safetensors"));
  averages.back() = static_cast<char>(averages.back() ^ 1);
  refused("weights_average.safetensors", averages, "averages: differ in ");
  std::mt19937 random(5);
  for (const char* const file : {"certificate.jsonl", "metrics.jsonl"}) {
    const std::string text = read_file(path(std::string("run/") + file));
    for (int i = 0; i < 30; ++i) {
      std::string edited = text;
      char& at = edited[random() % (text.size() - 1)];
      at = at == '7' ? '3' : '7';
      refused(file, edited, "does not match the run");
    }
  }
}

TEST_F(VerifyRunTest, AHalfCopiedRunIsCheckedToItsEnd) {
  train("run", {"checkpoint.every_steps=4"});
  const std::string run = path("run");
  const auto cut = [&](const std::string& file, std::uintmax_t bytes) {
    fs::resize_file(run + "/" + file, fs::file_size(run + "/" + file) - bytes);
  };
  cut("weights.safetensors", 100);
  expect_refusal("replay " + run, 4, "weights: " + run + "/weights.safetensors: holds ");
  EXPECT_THAT(trireme("replay " + run).output, HasSubstr("step_00000004        every checksum"));

  fs::remove(run + "/weights.safetensors");
  // Of the line with the weights, which the line of growing files follows.
  const std::string lines = read_file(run + "/certificate.jsonl");
  cut("certificate.jsonl", lines.size() - lines.rfind('\n', lines.size() - 2) + 30);
  EXPECT_THAT(output("replay " + run), HasSubstr("its last line is incomplete"));
  fs::remove(run + "/certificate.jsonl");
  expect_refusal("replay " + run, 2, "certificate.jsonl: is not there; give the directory of");
}

TEST_F(VerifyRunTest, NamesTheFirstDifferenceOfTwoRunsAndOfTheirSettings) {
  const auto against = [&](const std::string& other) {
    return "replay " + path("run") + " --against " + path(other);
  };
  train("run", {"train.eval_every=2"});
  train("same", {"train.eval_every=3"});
  EXPECT_THAT(output(against("same")),
              AllOf(HasSubstr("6 equal in samples"), HasSubstr("evaluations          1 equal"),
                    Not(HasSubstr("differs between the starts"))));

  train("rate", {"train.eval_every=2", "optimizer.learning_rate=0.0123"});
  expect_refusal(against("rate"), 4,
                 AllOf(HasSubstr("step 1: another weight digest: "),
                       HasSubstr("config.yaml        optimizer.learning_rate: "),
                       HasSubstr(" here, 0.0123 there\n"), Not(HasSubstr("layout  "))));

  train("validated",
        {"train.eval_every=2", "data.validation_path=" + data_directory() + "/text/train"});
  expect_refusal(against("validated"), 4,
                 AllOf(HasSubstr("6 equal in samples"),
                       HasSubstr("evaluation after step 2: another validation loss: 0x1."),
                       HasSubstr("  config.yaml        data.validation_path: ")));

  train("split",
        {"train.eval_every=2", "precision=bf16",
         "data.path=" + data_directory() + "/text/validation"},
        2);
  expect_refusal(
      against("split"), 4,
      AllOf(HasSubstr("step 1: other samples: 0x"),
            HasSubstr("  mode               run, fp32 here; run, bf16 there\n"),
            HasSubstr("  layout             data 1 x tensor 1 x pipeline 1, ZeRO 0 here; data 2 x"),
            HasSubstr("  training data      0x"), HasSubstr("parallel.data: 1 here, 2 there"),
            HasSubstr(
                "layouts give the same bits only where both runs have reproducibility: layout")));
}

// As in the version with the first certificates: only config.yaml and results.
TEST_F(VerifyRunTest, AnEarlierVersionsCertificateIsCheckedWithANotice) {
  fs::create_directories(path("old"));
  write_file(path("old/config.yaml"), "run: {seed: 1}\n");
  const std::string metrics =
      "{\"step\":1,\"loss\":0.5,\"grad_norm\":0.25}\n"
      "{\"step\":2,\"loss\":0.375,\"grad_norm\":0.25}\n";
  write_file(path("old/metrics.jsonl"), metrics);
  const std::string certificate =
      R"({"start_after":0,"time":"2026-11-23T20:00:00.000Z","config":"0x76a092a7ac5b368c",)"
      R"("data":"0x000000000000002a","program":"0.1.0","binary":"0x0000000000000007",)"
      R"("libraries":{"HDF5":"1.10.8"},"layout":"data 1 x tensor 1 x pipeline 1, ZeRO 0",)"
      R"("mode":"run, fp32","hosts":["n1"],"check":"0x020c6d7273be7b79",)"
      R"("chain":"0x0000000000000000"})"
      "\n"
      R"({"step":1,"loss":"0x1p-1","grad_norm":"0x1p-2","samples":"0x0000000000000007",)"
      R"("chain":"0x4e590b6025c7d4d8"})"
      "\n"
      R"({"step":2,"loss":"0x1.8p-2","grad_norm":"0x1p-2","samples":"0x000000000000000e",)"
      R"("chain":"0x42fc9d44f907ded6"})"
      "\n";
  write_file(path("old/certificate.jsonl"), certificate);
  const std::string command = "replay " + path("old");

  EXPECT_THAT(output(command),
              AllOf(HasSubstr("steps 1 to 2 in 1 start, chain 0x42fc9d44f907ded6"),
                    HasSubstr("config.yaml          is that of the last start"),
                    HasSubstr("config.user.yaml     is not certified: an earlier version wrote"),
                    HasSubstr("all 2 steps; an earlier version certified nothing else")));

  std::string edited = metrics;
  write_file(path("old/metrics.jsonl"), edited.replace(edited.find("0.5"), 3, "0.6"));
  expect_refusal(command, 4, "has loss 0.6 at step 1, the certificate 0.5");
  write_file(path("old/metrics.jsonl"), metrics);
  for (const char* const value : {"0.1.0", "0x1p-1", "n1"}) {
    edited = certificate;
    write_file(path("old/certificate.jsonl"), edited.replace(edited.find(value), 1, "2"));
    expect_refusal(command, 4, "was changed, or a line before it");
  }
}

// The averages are written last, for a disk without room for both.
TEST_F(VerifyRunTest, AveragesThatCannotBeWrittenTakeNoWeightsAway) {
  const std::vector<std::string> set{"train.ema_decay=0.5", "checkpoint.every_steps=6"};
  const std::string averages = path("run/weights_average.safetensors");
  fs::create_directories(averages + "/in_the_way");
  const CommandResult failed = train_gpt("run", 0, set);
  EXPECT_NE(failed.exit_code, 0);
  EXPECT_THAT(failed.output, HasSubstr("weights_average.safetensors"));
  EXPECT_TRUE(fs::exists(path("run/weights.safetensors"))) << failed.output;

  fs::remove_all(averages);
  expect_refusal("replay " + path("run"), 4, "averages: are not there");
  train("run", set);

  EXPECT_THAT(output("replay " + path("run")), HasSubstr("averages             are those of"));
}

}  // namespace
}  // namespace trireme::test
