// SPDX-License-Identifier: Apache-2.0
// A run with other data sets: ids and labels must have the same meaning as in training.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/data/make_data.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DataTest : public RunTest {
 protected:
  // 600 tokens of an alphabet of 256.
  [[nodiscard]] std::string tokens(const std::string& name, const std::string& tokenizer) const {
    const std::string path = directory() + "/" + name;
    std::filesystem::create_directories(path);
    ShardHeader header = token_header(600, 256);
    header.tokenizer = tokenizer;
    write_token_shard(path + "/shard_00000.h5", header, counting_tokens(600, 256));
    return path;
  }
  [[nodiscard]] std::string images(const std::string& name, const std::string& classes) const {
    const std::string path = directory() + "/" + name;
    const CommandResult packed = trireme(
        fmt::format("data pack-images --quiet --out {1} --labels {0}/labels_idx --class-names {2} "
                    "{0}/images_idx",
                    data_directory(), path, classes));
    EXPECT_EQ(packed.exit_code, 0) << packed.output;
    return path;
  }
  void expect_refused(const CommandResult& result, const std::string& a, const std::string& b,
                      const std::string& what) const {
    EXPECT_EQ(result.exit_code, 3) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr(a), HasSubstr(b), HasSubstr(what)));
  }
};

TEST_F(DataTest, TokenizersAreComparedByAllCommands) {
  const std::string bytes = tokens("bytes", "bytes");
  const std::string other = tokens("other", "huggingface:tokenizer.json:xxh3=0123456789abcdef");
  const std::string unknown = tokens("unknown", "");
  const auto stored = [&] { return directory() + "/run/config.yaml"; };

  expect_refused(train_gpt("run", 1, {"data.path=" + bytes, "data.validation_path=" + other}),
                 bytes, other, "huggingface:tokenizer.json");
  EXPECT_FALSE(std::filesystem::exists(stored())) << "refused before anything is written";

  const CommandResult trained = train_gpt(
      "run", 1,
      {"data.path=" + bytes, "data.validation_path=" + unknown, "checkpoint.every_steps=3"});
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string run = directory() + "/run";
  expect_refused(trireme("eval " + run + " --data " + other), bytes, other, "with bytes");
  EXPECT_EQ(trireme("eval " + run + " --data " + unknown).exit_code, 0);
  expect_refused(
      train_gpt("run", 1, {"data.path=" + other, "data.validation_path=" + other, "train.steps=8"}),
      bytes, other, "tokenizer");

  // As in runs of versions without this record.
  std::filesystem::remove(run + "/data.json");
  EXPECT_EQ(trireme("eval " + run + " --data " + other).exit_code, 0);
}

TEST_F(DataTest, ClassNamesAreComparedByAllCommands) {
  const std::string cats = images("cats", "cats,dogs,eels"),
                    apes = images("apes", "ape,cats,zebra");

  expect_refused(train_resnet("run", 1, {"data.path=" + cats, "data.validation_path=" + apes}),
                 cats, apes, "class 0 is 'ape'");
  const CommandResult trained =
      train_resnet("run", 1, {"data.path=" + cats, "train.steps=1"});  // numbered validation set
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  expect_refused(trireme("eval " + directory() + "/run --data " + apes), cats, apes,
                 "3: cats, dogs, eels");
}

TEST_F(DataTest, AnExportHasTheClassNamesOfTheTrainingData) {
  const std::string cats = images("cats", "cats,dogs,eels"), run = directory() + "/run";
  const CommandResult trained =
      train_vit("run", 1, {"data.path=" + cats, "data.validation_path=" + cats, "train.steps=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.output;

  const CommandResult exported = trireme("checkpoint export " + run + " --out " + run + "_hf");

  ASSERT_EQ(exported.exit_code, 0) << exported.output;
  const auto config = nlohmann::json::parse(read_file(run + "_hf/config.json"));
  EXPECT_EQ(config["id2label"], (nlohmann::json{{"0", "cats"}, {"1", "dogs"}, {"2", "eels"}}));
  EXPECT_EQ(config["label2id"], (nlohmann::json{{"cats", 0}, {"dogs", 1}, {"eels", 2}}));
}

TEST_F(DataTest, BitsAreTheSameFromCopiesOnTheHostsOwnDisk) {
  const std::string stage = directory() + "/stage";
  const std::vector<std::string> settings = {"reproducibility=layout", "train.eval_every=3"};
  const auto staged = [&](const std::string& size) {
    std::vector<std::string> more = settings;
    more.push_back("data.stage=" + stage);
    more.push_back("data.stage_gigabytes=" + size);
    return more;
  };
  ASSERT_EQ(train_gpt("plain", 1, settings).exit_code, 0);

  for (const auto& [name, ranks, size] :
       {std::tuple{"two", 2, "0"}, {"again", 1, "0"}, {"no_room", 2, "0.000001"}}) {
    const CommandResult result = train_gpt(name, ranks, staged(size));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(weights_of(name), weights_of("plain")) << name;
    EXPECT_EQ(validation_loss_of(name), validation_loss_of("plain")) << name;
    EXPECT_THAT(result.output,
                HasSubstr(size == std::string("0") ? "2 file(s)" : "2 file(s) are read in place"));
  }
  const CommandResult refused = train_gpt("refused", 2, {"data.stage=/proc/stage"});
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("data.stage: /proc/stage"));
}

TEST_F(DataTest, AFlippedBitOfTheTrainingDataEndsTheRun) {
  const std::string data = tokens("data", "bytes"), shard = data + "/shard_00000.h5";
  std::string bytes = read_file(shard);
  bytes[bytes.find(std::string("\x10\0\x11\0\x12\0", 6))] ^= 1;  // still in the vocabulary
  write_file(shard, bytes);

  const CommandResult result = train_gpt("run", 2, {"data.path=" + data});

  expect_refused(result, shard, "block 0 (", "restore it");
  EXPECT_FALSE(std::filesystem::exists(directory() + "/run/weights.safetensors"));
}

}  // namespace
}  // namespace trireme::test
