// SPDX-License-Identifier: Apache-2.0
// Runs that begin with given weights: the same bits under any layout. A learning rate of 0 leaves
// them as they were read.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/files/safetensors.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class InitialWeightsTest : public RunTest {
 protected:
  using Settings = std::vector<std::string>;

  // A run to take weights from.
  void SetUp() override {
    const CommandResult source = train_gpt("source", 1, {"checkpoint.every_steps=6"});
    ASSERT_EQ(source.exit_code, 0) << source.output;
  }
  [[nodiscard]] std::string source() const { return directory() + "/source"; }

  [[nodiscard]] CommandResult begin(const std::string& name, int ranks, const std::string& weights,
                                    const Settings& more = {}) {
    Settings all{"train.initial_weights=" + weights, "optimizer.learning_rate=0", "train.steps=1",
                 "lr_schedule.warmup_steps=0", "run.seed=8"};
    all.insert(all.end(), more.begin(), more.end());
    return train_gpt(name, ranks, all);
  }
  // Behind the header, which tells the runs' steps.
  [[nodiscard]] std::string values_of(const std::string& name) const {
    const std::string file = weights_of(name);
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    return file.substr(sizeof header + header);
  }
  void expect_weights_of_source(const std::string& name, const CommandResult& result) const {
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(values_of(name) == values_of("source"));
    EXPECT_FALSE(steps_of(name).empty());
  }
};

// Two files and their index, each tensor in one of them.
void write_sharded(const std::string& from, const std::string& directory) {
  std::filesystem::create_directory(directory);
  const SafetensorsFile file(from);
  nlohmann::json index{{"weight_map", nlohmann::json::object()}};
  for (int shard = 0; shard < 2; ++shard) {
    const std::string name = fmt::format("model-{}.safetensors", shard);
    std::vector<std::vector<std::byte>> memory;
    std::vector<NamedTensor> tensors;
    for (std::size_t i = static_cast<std::size_t>(shard); i < file.names().size(); i += 2) {
      const std::string& tensor = file.names()[i];
      auto& bytes = memory.emplace_back(file.bytes(tensor));
      file.read(tensor, bytes.data(), bytes.size());
      tensors.push_back({tensor, {bytes.data(), file.dtype(tensor), file.shape(tensor)}});
      index["weight_map"][tensor] = name;
    }
    write_safetensors(directory + "/" + name, tensors);
  }
  write_file(directory + "/model.safetensors.index.json", index.dump());
}

TEST_F(InitialWeightsTest, AreTheBitsOfTheFileUnderEveryLayout) {
  struct Case {
    int ranks;
    Settings layout;
  };
  const std::vector<Case> cases = {{1, {}},
                                   {2, {}},
                                   {2, {"parallel.tensor=2"}},
                                   {2, {"parallel.pipeline=2"}},
                                   {2, {"parallel.zero=3"}}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string name = fmt::format("case{}", i);
    const CommandResult result =
        begin(name, cases[i].ranks, source() + "/weights.safetensors", cases[i].layout);
    expect_weights_of_source(name, result);
  }
}

TEST_F(InitialWeightsTest, ComeFromShardsARunsDirectoryOrACheckpoint) {
  write_sharded(source() + "/weights.safetensors", directory() + "/sharded");

  const std::vector<std::string> places = {directory() + "/sharded",
                                           directory() + "/sharded/model.safetensors.index.json",
                                           source(), source() + "/checkpoints/step_00000006"};
  for (std::size_t i = 0; i < places.size(); ++i) {
    SCOPED_TRACE(places[i]);
    const std::string name = fmt::format("from{}", i);
    expect_weights_of_source(name, begin(name, 2, places[i]));
  }
}

TEST_F(InitialWeightsTest, OfAnotherModelOrMissingAreRefusedBeforeARunDirectoryIsMade) {
  const CommandResult wider =
      begin("wider", 2, source() + "/weights.safetensors", {"model.hidden=64"});
  EXPECT_EQ(wider.exit_code, 4);
  EXPECT_THAT(wider.output, AllOf(HasSubstr("train.initial_weights"), HasSubstr("the model needs"),
                                  HasSubstr("embedding.token.weight"), HasSubstr("set model.*")));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/wider/config.yaml"));

  const CommandResult missing = begin("missing", 1, directory() + "/nowhere.safetensors");
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_THAT(missing.output,
              AllOf(HasSubstr("nowhere.safetensors"), HasSubstr("no such file or directory")));

  const std::string checkpoint = source() + "/checkpoints/step_00000006";
  std::string bytes = read_file(checkpoint + "/rank_00000.h5");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(checkpoint + "/rank_00000.h5", bytes);
  const CommandResult damaged = begin("damaged", 2, checkpoint);
  EXPECT_EQ(damaged.exit_code, 4);
  EXPECT_THAT(damaged.output, HasSubstr("does not match its checksum"));
}

TEST_F(InitialWeightsTest, AreUnderAdaptersTheBaseModelUntilTheyAreTrained) {
  const Settings adapters{"lora.rank=4", "lora.alpha=8", "optimizer.learning_rate=1e-2",
                          "lr_schedule.name=constant"};
  ASSERT_EQ(begin("base", 1, source()).exit_code, 0);
  Settings saving = adapters;
  saving.insert(saving.end(), {"train.steps=2", "checkpoint.every_steps=2"});
  const CommandResult first = begin("run", 2, source(), saving);
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("of them trained"));
  ASSERT_EQ(steps_of("run").size(), 2U);
  EXPECT_EQ(steps_of("run")[0].loss, steps_of("base")[0].loss);

  // Its checkpoints go on under other layouts.
  Settings whole = adapters, split = adapters;
  for (Settings* const set : {&whole, &split})
    set->insert(set->end(),
                {"train.steps=4", "reproducibility=layout", "checkpoint.every_steps=2"});
  ASSERT_EQ(begin("whole", 1, source(), whole).exit_code, 0);
  Settings half = split;
  half.insert(half.end(), {"train.steps=2", "parallel.zero=3"});
  ASSERT_EQ(begin("split", 2, source(), half).exit_code, 0);
  split.emplace_back("parallel.pipeline=2");
  const CommandResult on = begin("split", 2, source(), split);
  ASSERT_EQ(on.exit_code, 0) << on.output;
  EXPECT_TRUE(values_of("split") == values_of("whole"));
  split.emplace_back("lora.alpha=4");
  const CommandResult other = begin("split", 2, source(), split);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.output, HasSubstr("lora.alpha: is 4 and was 8"));

  // Merged, they are weights as any.
  const auto at = [&](const char* name) { return directory() + "/" + name; };
  ASSERT_EQ(
      trireme(fmt::format("checkpoint export {} --out {}", at("whole"), at("theirs"))).exit_code,
      0);
  ASSERT_EQ(
      trireme(fmt::format("checkpoint import {} --out {}", at("theirs"), at("merged"))).exit_code,
      0);
  ASSERT_EQ(begin("again", 1, at("merged")).exit_code, 0);
  EXPECT_NEAR(validation_loss_of("again"), validation_loss_of("whole"), 1e-4);
  EXPECT_GT(std::abs(validation_loss_of("again") - validation_loss_of("base")), 1e-3);
  const CommandResult mistaken = trireme(
      fmt::format("checkpoint export {}/weights.safetensors --config {}/config.yaml --out {}",
                  at("whole"), at("base"), at("mistaken")));
  EXPECT_EQ(mistaken.exit_code, 2);
  EXPECT_THAT(mistaken.output, HasSubstr("holds adapters"));
}

TEST_F(InitialWeightsTest, AreNotReadByARunThatGoesOn) {
  const Settings saving{"checkpoint.every_steps=1"};
  const std::string weights = source() + "/weights.safetensors";
  ASSERT_EQ(begin("run", 1, weights, saving).exit_code, 0);
  Settings more = saving;
  more.emplace_back("train.steps=2");

  const CommandResult on = begin("run", 1, directory() + "/gone.safetensors", more);

  EXPECT_EQ(on.exit_code, 0) << on.output;
  EXPECT_THAT(on.output,
              AllOf(HasSubstr("gone.safetensors is not read: the run goes on from"),
                    Not(HasSubstr("other settings than before: train.initial_weights"))));
}

}  // namespace
}  // namespace trireme::test
