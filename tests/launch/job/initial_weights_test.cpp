// SPDX-License-Identifier: Apache-2.0
// Runs with given initial weights: the same bits under any layout. A learning rate of 0 leaves them
// unchanged.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/files/weight_files.h"
#include "tests/data/make_tokenizer.h"
#include "tests/launch/job/initial_weights_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

TEST_F(InitialWeightsTest, BringTheirModelAndAreNotReadAsAnother) {
  const std::string file = directory() + "/short.yaml";
  const auto short_config = [&](const std::string& model) {
    write_file(file, fmt::format("run: {{directory: {}/begun}}\nprecision: fp32\n{}"
                                 "data: {{path: {}/text/train}}\n"
                                 "train: {{steps: 1, global_batch: 8, initial_weights: {}}}\n"
                                 "lr_schedule: {{warmup_steps: 0}}\n",
                                 directory(), model, data_directory(), source()));
    return trireme("train " + file + " --set optimizer.learning_rate=0 --overwrite");
  };
  const CommandResult whole = short_config("");
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_TRUE(values_of("begun") == values_of("source"));
  EXPECT_EQ(short_config("model: {dropout: 0.1}\n").exit_code, 0);
  for (const char* const weights : {"", "/weights.safetensors", "/checkpoints/step_00000006"}) {
    const CommandResult heads = begin("heads", 1, source() + weights, {"model.heads=4"});
    EXPECT_EQ(heads.exit_code, 2) << heads.output;
    EXPECT_THAT(heads.output,
                AllOf(HasSubstr("model.heads: 4, but "), HasSubstr("config.yaml has 2"),
                      HasSubstr("remove model.heads from the config")));
  }
  EXPECT_FALSE(std::filesystem::exists(directory() + "/heads/config.yaml"));
}

TEST_F(InitialWeightsTest, OfAnotherNormEpsilonAreRefusedAndOfAnotherWindowNamed) {
  const Settings model{"model.family=llama", "model.window=8"};
  ASSERT_EQ(train_gpt("llama", 1, model).exit_code, 0);
  const auto begun = [&](const char* other) {
    Settings all = model;
    all.emplace_back(other);
    return begin("begun", 1, directory() + "/llama", all);
  };

  const CommandResult epsilon = begun("model.norm_epsilon=1e-2");
  EXPECT_EQ(epsilon.exit_code, 2);
  EXPECT_THAT(epsilon.output,
              AllOf(HasSubstr("model.norm_epsilon: 0.01, but "), HasSubstr("config.yaml has 1e-05"),
                    HasSubstr("remove model.norm_epsilon from the config")));
  const CommandResult window = begun("model.window=4");
  EXPECT_EQ(window.exit_code, 0) << window.output;
  EXPECT_THAT(window.output,
              AllOf(HasSubstr("model.window: 4, but "), HasSubstr("config.yaml has 8"),
                    HasSubstr("trained with the latter; training continues with 4")));
}

TEST_F(InitialWeightsTest, OfAnImportNeedItsTokenizerAndExportItsFiles) {
  const auto at = [&](const char* name) { return directory() + "/" + name; };
  const auto run = [](const std::string& command) {
    const CommandResult result = trireme(command);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  run(fmt::format("checkpoint export {} --out {}", source(), at("hf")));
  std::string config = read_file(at("hf") + "/config.json");
  config.replace(config.find("\"eos_token_id\": null"), 20, "\"eos_token_id\": 7");
  write_file(at("hf") + "/config.json", config);
  write_file(at("hf") + "/chat_template.jinja", "{{ messages }}");
  run(fmt::format("checkpoint import {} --out {}", at("hf"), at("import")));

  // Its directory is no place to train in.
  const std::string data = data_directory() + "/text/train";
  const CommandResult inside = trireme("train " + at("import") + " --set data.path=" + data);
  EXPECT_EQ(inside.exit_code, 2);
  EXPECT_THAT(inside.output, AllOf(HasSubstr("train.initial_weights: " + at("import")),
                                   Not(HasSubstr("--overwrite"))));

  ASSERT_EQ(begin("tuned", 1, at("import")).exit_code, 0);
  run(fmt::format("checkpoint export {} --out {} --dtype bf16", at("tuned"), at("back")));
  EXPECT_EQ(read_file(at("back") + "/chat_template.jinja"), "{{ messages }}");
  const auto back = nlohmann::json::parse(read_file(at("back") + "/config.json"));
  EXPECT_EQ(back["eos_token_id"], 7);
  EXPECT_EQ(back["torch_dtype"], "bfloat16");
  const SafetensorsFile file(at("back") + "/model.safetensors");
  for (const std::string& name : file.names())
    EXPECT_EQ(file.dtype(name), DType::bf16) << name;
  run(fmt::format("checkpoint import {} --out {}", at("back"), at("again")));

  // The data is bytes. A WordPiece tokenizer is not parsed, so only the same file counts as equal.
  for (const std::string& tokenizer :
       {TokenizerText{}.json(), std::string(R"({"model": {"type": "WordPiece", "vocab": {}}})")}) {
    write_file(at("import") + "/tokenizer.json", tokenizer);
    for (const CommandResult& other :
         {begin("other", 1, at("import")), trireme(fmt::format("eval {} --data {}/text/validation",
                                                               at("import"), data_directory()))}) {
      EXPECT_EQ(other.exit_code, 3) << other.output;
      EXPECT_THAT(other.output, AllOf(HasSubstr("was packed with the tokenizer bytes"),
                                      HasSubstr("huggingface:tokenizer.json:xxh3=")));
    }
  }
}

TEST_F(InitialWeightsTest, AreTheBaseModelOfUntrainedAdapters) {
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

  // Its checkpoints resume under other layouts.
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
  EXPECT_THAT(other.output, HasSubstr("lora.alpha: is 4, but was 8"));

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

TEST_F(InitialWeightsTest, MayBeSkippedAndReinitialisedByName) {
  const Settings anew{"train.initial_reinitialise=[final_norm.*,blocks.1.*]"};
  ASSERT_EQ(begin("anew", 2, source(), anew).exit_code, 0);
  const WeightFiles before(source() + "/weights.safetensors");
  const WeightFiles after(directory() + "/anew/weights.safetensors");
  for (const std::string& name : before.names()) {
    if (name.ends_with(".bias")) continue;
    const bool fresh = name.starts_with("final_norm.") || name.starts_with("blocks.1.");
    EXPECT_EQ(before.read(name) != after.read(name), fresh) << name;
  }
  const CommandResult shorter = begin("shorter", 1, source(), {"model.layers=1"});
  EXPECT_EQ(shorter.exit_code, 4);
  EXPECT_THAT(shorter.output, HasSubstr("train.initial_skip"));
}

TEST_F(InitialWeightsTest, OfAnotherHeadAreRefusedWithTheWayOut) {
  ASSERT_EQ(train_vit("three", 1).exit_code, 0);
  const std::string weights = "train.initial_weights=" + directory() + "/three/weights.safetensors";
  const Settings two{weights, "model.pooling=mean"};
  const CommandResult refused = train_vit("two", 1, two);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr("train.initial_skip"));
  const CommandResult none = train_vit("two", 1, {weights, "train.initial_skip=[hed.*]"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("\"hed.*\" matches no tensor"));
}

// Rows of new tokens are the mean of the old ones, in every layout; padding rows too.
TEST_F(InitialWeightsTest, GrowByTokens) {
  for (const std::string vocabulary : {"300", "340"}) {
    const Settings grown{"model.vocabulary=" + vocabulary};
    for (const auto& [name, ranks, layout] : {std::tuple{"one", 1, "parallel.zero=0"},
                                              {"zero", 2, "parallel.zero=3"},
                                              {"tensor", 2, "parallel.tensor=2"}}) {
      Settings set = grown;
      set.emplace_back(layout);
      std::filesystem::remove_all(directory() + "/" + name);
      const CommandResult result = begin(name, ranks, source(), set);
      ASSERT_EQ(result.exit_code, 0) << result.output;
    }
    EXPECT_TRUE(values_of("one") == values_of("zero"));
    EXPECT_TRUE(values_of("one") == values_of("tensor"));
    const auto table = [&](const std::string& run) {
      return WeightFiles(directory() + "/" + run + "/weights.safetensors")
          .read("embedding.token.weight");
    };
    const std::vector<float> old = table("source"), now = table("one");
    ASSERT_GT(now.size(), old.size());
    EXPECT_TRUE(std::equal(old.begin(), old.end(), now.begin()));
    double mean = 0;
    for (std::size_t i = 5; i < old.size(); i += 32)
      mean += static_cast<double>(old[i]) / 256;
    for (std::size_t i = old.size() + 5; i < now.size(); i += 32)
      EXPECT_NEAR(now[i], mean, 1e-6);
  }
  const CommandResult fewer = begin("fewer", 1, source(), {"model.vocabulary=200"});
  EXPECT_NE(fewer.exit_code, 0);
}

TEST_F(InitialWeightsTest, WithoutAHeadAreImportedAndTrained) {
  ASSERT_EQ(train_vit("vit", 1).exit_code, 0);
  const auto at = [&](const std::string& name) { return directory() + "/" + name; };
  ASSERT_EQ(trireme(fmt::format("checkpoint export {} --out {}", at("vit"), at("whole"))).exit_code,
            0);
  // As ViTModel saves it: without the first part of all names, with a pooler.
  const SafetensorsFile file(at("whole") + "/model.safetensors");
  std::vector<std::vector<std::byte>> memory;
  std::vector<NamedTensor> tensors;
  for (const std::string& name : file.names()) {
    if (!name.starts_with("vit.")) continue;
    auto& bytes = memory.emplace_back(file.bytes(name));
    file.read(name, bytes.data(), bytes.size());
    tensors.push_back({name.substr(4), {bytes.data(), file.dtype(name), file.shape(name)}});
    if (name == "vit.layernorm.weight")
      tensors.push_back({"pooler.dense.bias", {bytes.data(), file.dtype(name), file.shape(name)}});
  }
  std::filesystem::create_directory(at("base"));
  std::filesystem::copy(at("whole") + "/config.json", at("base"));
  write_safetensors(at("base") + "/model.safetensors", tensors);
  const std::string import =
      fmt::format("checkpoint import {} --out {}", at("base"), at("headless"));
  const CommandResult refused = trireme(import);
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.output, HasSubstr("give --reinitialise 'classifier.*'"));
  EXPECT_EQ(trireme(import + " --reinitialise hat.*").exit_code, 2);
  const std::string seven =
      fmt::format("checkpoint import {} --out {} --set model.classes=7", at("whole"), at("seven"));
  const CommandResult larger = trireme(seven);
  EXPECT_EQ(larger.exit_code, 2);
  EXPECT_THAT(larger.output, HasSubstr("name the head's tensors by --reinitialise"));
  ASSERT_EQ(trireme(seven + " --reinitialise 'classifier.*'").exit_code, 0);
  EXPECT_THAT(read_file(at("seven") + "/config.yaml"), HasSubstr("classes: 7"));
  const CommandResult imported = trireme(import + " --reinitialise classifier.*");
  ASSERT_EQ(imported.exit_code, 0) << imported.output;
  const CommandResult trained = train_vit(
      "again", 2, {"train.initial_weights=" + at("headless"), "optimizer.learning_rate=0"});
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const WeightFiles before(at("vit") + "/weights.safetensors");
  const WeightFiles after(at("again") + "/weights.safetensors");
  EXPECT_EQ(before.read("blocks.0.mlp.expand.weight"), after.read("blocks.0.mlp.expand.weight"));
  EXPECT_NE(before.read("classifier.weight"), after.read("classifier.weight"));
  const CommandResult scored =
      trireme(fmt::format("eval {} --data {}/images/validation", at("headless"), data_directory()));
  EXPECT_EQ(scored.exit_code, 2);
  EXPECT_THAT(scored.output, HasSubstr("was imported without classifier.*"));
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
              AllOf(HasSubstr("gone.safetensors is not read: the run resumes from"),
                    Not(HasSubstr("other settings than before: train.initial_weights"))));
}

}  // namespace
}  // namespace trireme::test
