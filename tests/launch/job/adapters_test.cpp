// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters: their bits in every layout, and files of peft.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/files/weight_files.h"
#include "tests/launch/job/initial_weights_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class AdapterTest : public InitialWeightsTest {
 protected:
  [[nodiscard]] std::string at(const std::string& name) const { return directory() + "/" + name; }
  // A Llama and adapters of it, trained a little.
  void train_llama(const std::string& base, const std::string& adapted) {
    const Settings llama{"model.family=llama", "model.kv_heads=1"};
    const CommandResult first = train_gpt(base, 1, llama);
    ASSERT_EQ(first.exit_code, 0) << first.output;
    Settings set = llama;
    set.insert(set.end(),
               {"train.initial_weights=" + at(base) + "/weights.safetensors", "lora.rank=4",
                "lora.rslora=true", "lora.dropout=0.1", "optimizer.learning_rate=0.02",
                "lora.targets=[query,key,value,output,gate,up,contract]"});
    const CommandResult second = train_gpt(adapted, 2, set);
    ASSERT_EQ(second.exit_code, 0) << second.output;
  }
};

TEST_F(AdapterTest, WithPartsAndDropoutHaveTheSameBitsInEveryLayout) {
  Settings set{"model.family=llama",
               "model.kv_heads=2",
               "train.initial_weights=" + at("base") + "/weights.safetensors",
               "lora.rank=4",
               "lora.dropout=0.2",
               "lora.targets=[query,value,gate,contract]",
               "reproducibility=layout",
               "parallel.tensor_blocks=2"};
  ASSERT_EQ(train_gpt("base", 1, {set[0], set[1]}).exit_code, 0);
  ASSERT_EQ(train_gpt("one", 1, set).exit_code, 0);
  for (const Settings& layout :
       {Settings{"parallel.tensor=2"}, Settings{"parallel.tensor=2", "parallel.sequence=true"},
        Settings{"parallel.pipeline=2", "parallel.schedule=zero-bubble"},
        Settings{"parallel.zero=3", "train.recompute=full"}}) {
    Settings other = set;
    other.insert(other.end(), layout.begin(), layout.end());
    std::filesystem::remove_all(at("other"));
    const CommandResult result = train_gpt("other", 2, other);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(values_of("one") == values_of("other")) << layout.front();
  }
}

TEST_F(AdapterTest, GoToPeftAndBack) {
  train_llama("llama", "tuned");
  const CommandResult exported =
      trireme(fmt::format("checkpoint export {} --adapter --out {}", at("tuned"), at("peft")));
  ASSERT_EQ(exported.exit_code, 0) << exported.output;
  const auto config = nlohmann::json::parse(read_file(at("peft") + "/adapter_config.json"));
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["use_rslora"], true);
  EXPECT_EQ(config["target_modules"].size(), 7U);
  const auto import = [&](const std::string& base, const std::string& to) {
    return trireme(
        fmt::format("checkpoint import {} --base {} --out {}", at("peft"), at(base), at(to)));
  };
  const CommandResult back = import("llama", "back");
  ASSERT_EQ(back.exit_code, 0) << back.output;
  EXPECT_TRUE(values_of("back") == values_of("tuned"));
  EXPECT_THAT(read_file(at("back") + "/config.yaml"), HasSubstr("rank: 4, alpha: 16"));

  // Of another base, by its digest and by its shapes.
  ASSERT_EQ(
      train_gpt("seed", 1, {"model.family=llama", "model.kv_heads=1", "run.seed=9"}).exit_code, 0);
  const CommandResult other = import("seed", "wrong");
  EXPECT_EQ(other.exit_code, 4);
  EXPECT_THAT(other.output, HasSubstr("was trained on other weights"));
  const CommandResult shapes = import("source", "wrong");
  EXPECT_EQ(shapes.exit_code, 4);
  EXPECT_THAT(shapes.output, HasSubstr("no factor of a layer"));

  for (const auto& [key, value] : {std::pair<std::string, nlohmann::json>{"use_dora", true},
                                   {"bias", "all"},
                                   {"modules_to_save", {"lm_head"}},
                                   {"rank_pattern", {{"q_proj", 8}}},
                                   {"peft_type", "IA3"},
                                   {"init_lora_weights", "pissa"}}) {
    nlohmann::json changed = config;
    changed[key] = value;
    write_file(at("peft") + "/adapter_config.json", changed.dump());
    const CommandResult refused = import("llama", "wrong");
    EXPECT_EQ(refused.exit_code, 2) << key;
    EXPECT_THAT(refused.output, HasSubstr(key + " is "));
  }
  EXPECT_EQ(trireme(fmt::format("checkpoint import {} --out {}", at("peft"), at("x"))).exit_code,
            2);
}

TEST_F(AdapterTest, TrainWhatStartsAnewBesideThem) {
  train_llama("llama", "tuned");
  const Settings set{"model.family=llama",
                     "model.kv_heads=1",
                     "train.initial_weights=" + at("llama"),
                     "train.initial_reinitialise=[final_norm.*]",
                     "lora.rank=4",
                     "lora.targets=[query,contract]",
                     "reproducibility=layout"};
  ASSERT_EQ(train_gpt("one", 1, set).exit_code, 0);
  Settings two = set;
  two.emplace_back("parallel.zero=2");
  ASSERT_EQ(train_gpt("two", 2, two).exit_code, 0);
  EXPECT_TRUE(values_of("one") == values_of("two"));
  const auto values = [&](const std::string& run, const std::string& name) {
    const SafetensorsFile file(at(run) + "/weights.safetensors");
    std::vector<float> read(file.bytes(name) / sizeof(float));
    file.read(name, read.data(), file.bytes(name));
    return read;
  };
  EXPECT_THAT(values("one", "final_norm.weight"), testing::Contains(testing::Ne(1.0F)));
  EXPECT_EQ(values("one", "embedding.token.weight"), values("llama", "embedding.token.weight"));

  ASSERT_EQ(trireme(fmt::format("checkpoint export {} --adapter --out {}", at("one"), at("peft")))
                .exit_code,
            0);
  const auto config = nlohmann::json::parse(read_file(at("peft") + "/adapter_config.json"));
  EXPECT_EQ(config["modules_to_save"], std::vector<std::string>{"model.norm"});
  const CommandResult back = trireme(
      fmt::format("checkpoint import {} --base {} --out {}", at("peft"), at("llama"), at("back")));
  ASSERT_EQ(back.exit_code, 0) << back.output;
  EXPECT_TRUE(values_of("back") == values_of("one"));

  // The config of the import trains and exports them again, from their values.
  const Settings on{"model.family=llama",
                    "model.kv_heads=1",
                    "train.initial_weights=" + at("back"),
                    "lora.rank=4",
                    "lora.targets=[query,contract]",
                    "lora.modules_to_save=[final_norm.weight]",
                    "train.steps=1",
                    "lr_schedule.warmup_steps=0",
                    "optimizer.weight_decay=0",
                    "optimizer.learning_rate=1e-4"};
  EXPECT_THAT(read_file(at("back") + "/config.yaml"),
              HasSubstr("modules_to_save: [final_norm.weight]"));
  ASSERT_EQ(train_gpt("on", 1, on).exit_code, 0);
  const auto before = values("back", "final_norm.weight"),
             after = values("on", "final_norm.weight");
  EXPECT_NE(before, after);
  EXPECT_THAT(after, testing::Pointwise(testing::FloatNear(1.1e-4F), before));
  ASSERT_EQ(trireme(fmt::format("checkpoint export {} --adapter --out {}", at("on"), at("again")))
                .exit_code,
            0);
  EXPECT_EQ(
      nlohmann::json::parse(read_file(at("again") + "/adapter_config.json"))["modules_to_save"],
      std::vector<std::string>{"model.norm"});
}

TEST_F(AdapterTest, OfATiedBaseTrainTheTableInPeftsFile) {
  const Settings tied{"model.family=llama", "model.kv_heads=1", "model.tied_head=true"};
  ASSERT_EQ(train_gpt("base", 1, tied).exit_code, 0);
  Settings set = tied;
  set.insert(set.end(),
             {"train.initial_weights=" + at("base"), "lora.rank=2", "lora.targets=[query,contract]",
              "lora.modules_to_save=[embedding.token.weight]"});
  ASSERT_EQ(train_gpt("tuned", 1, set).exit_code, 0);
  ASSERT_EQ(trireme(fmt::format("checkpoint export {} --adapter --out {}", at("tuned"), at("peft")))
                .exit_code,
            0);
  const auto config = nlohmann::json::parse(read_file(at("peft") + "/adapter_config.json"));
  EXPECT_EQ(config["ensure_weight_tying"], true);
  const auto import = [&](const nlohmann::json& changed, const std::string& to) {
    write_file(at("peft") + "/adapter_config.json", changed.dump());
    return trireme(
        fmt::format("checkpoint import {} --base {} --out {}", at("peft"), at("base"), at(to)));
  };
  EXPECT_EQ(import(config, "back").exit_code, 0);
  EXPECT_TRUE(values_of("back") == values_of("tuned"));
  // peft would untie the head, or not read a factor.
  for (const auto& [key, value] :
       {std::pair<std::string, nlohmann::json>{"ensure_weight_tying", false},
        {"modules_to_save", {"embed_tokens", "norm"}},
        {"target_modules", {"q_proj", "o_proj"}},
        {"target_modules", ".*\\.q_proj"},
        {"exclude_modules", {"down_proj"}},
        {"layers_to_transform", {1}}}) {
    nlohmann::json changed = config;
    changed[key] = value;
    const CommandResult refused = import(changed, "wrong");
    EXPECT_EQ(refused.exit_code, 2) << key << refused.output;
    EXPECT_THAT(refused.output, HasSubstr(key == "ensure_weight_tying" ? "modules_to_save" : key));
  }
}

}  // namespace
}  // namespace trireme::test
