// SPDX-License-Identifier: Apache-2.0
// The key table against the structs: each member has one row, each row one member.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "models/bert/bert.h"
#include "models/cosmoflow/cosmoflow.h"
#include "models/deepcam/deepcam.h"
#include "models/gemma/gemma.h"
#include "models/gpt/gpt.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/llama/llama.h"
#include "models/mlp/mlp.h"
#include "models/registry.h"
#include "models/resnet/resnet.h"
#include "models/unet/unet.h"
#include "models/vit/vit.h"
#include "runtime/config/key_table.h"
#include "runtime/config/value.h"
#include "tests/config/support.h"

namespace trireme {
namespace {

using config::Field;

// Converts to any type, so that an aggregate's members can be counted.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: never defined, only named in unevaluated contexts
};

template <typename Struct, typename... Members>
consteval std::size_t member_count() {
  if constexpr (requires { Struct{Members{}..., Anything{}}; }) {
    return member_count<Struct, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

struct Probe {
  int a;
  std::string b;
  std::array<double, 2> c;
};
static_assert(member_count<Probe>() == 3);

// Another valid value for a field, and never its default.
std::string other_value(const Field& field) {
  const std::string current = format_value(field, default_config());
  if (const auto* choices = std::get_if<config::Choices>(&field.limits)) {
    for (const std::string_view word : choices->words) {
      if (word != current) return std::string(word);
    }
    return "";  // only one choice
  }
  const std::string type = type_of(field);
  if (type == "boolean") return current == "true" ? "false" : "true";
  if (const auto* range = std::get_if<config::IntegerRange>(&field.limits);
      range != nullptr && type == "integer") {
    return fmt::format("{}",
                       fmt::format("{}", range->low) == current ? range->low + 1 : range->low);
  }
  if (type == "integer") return "7";
  if (type == "target") return "{metric: mae, above: 0.5}";
  if (const auto* range = std::get_if<config::NumberRange>(&field.limits);
      range != nullptr && type == "number")
    return range->low < 0.625 ? "0.625" : "1.625";
  if (type == "text") return "some/other place";
  if (type == "list of data sets") return "[a/b, {name: c, path: \"d, e\", crop: [0, 0, 4, 4]}]";
  if (type == "list of texts") return "[\"a, b\", \"*.h5\"]";
  if (field.key.starts_with("parallel.spatial")) return "[3, 5, 2]";
  return field.key == "optimizer.betas" || field.key == "data.flips" ? "[0.5, 0.25]" : "[3, 5]";
}

std::size_t differing_fields(const Config& a, const Config& b) {
  std::size_t count = 0;
  for (const Field& field : key_table().fields())
    count += format_value(field, a) != format_value(field, b);
  return count;
}

TEST(ConfigTable, HasOneRowForEveryMemberOfEveryStruct) {
  const std::map<std::string_view, std::size_t> members{
      {"run", member_count<RunConfig>()},
      {"device", member_count<DeviceConfig>()},
      // A base counts as one member.
      {"data", member_count<DataConfig>() - 1 + member_count<DataSource>() - 2 +
                   member_count<FieldSource>() + member_count<ImageFilesSource>()},
      {"parallel", member_count<ParallelConfig>()},
      {"comm", member_count<CommConfig>()},
      {"train", member_count<TrainConfig>()},
      {"optimizer", member_count<OptimizerConfig>()},
      {"lr_schedule", member_count<LrScheduleConfig>()},
      {"loss_scale", member_count<LossScaleConfig>()},
      {"lora", member_count<LoraConfig>()},
      {"checkpoint", member_count<CheckpointConfig>()},
      {"telemetry", member_count<TelemetryConfig>()}};
  std::map<std::string_view, std::size_t> rows;
  for (const Field& field : key_table().fields()) {
    if (!field.section().empty()) ++rows[field.section()];
  }
  rows.erase("model");  // rows of the families

  EXPECT_EQ(rows, members);
  EXPECT_EQ(key_table().names_in("").size(), member_count<Config>())
      << "sections and top-level keys";
}

TEST(ConfigTable, HasOneRowForEveryMemberOfEveryFamily) {
  const std::map<std::string_view, std::size_t> members{
      {"gpt2", member_count<GptOptions>()},      {"llama", member_count<LlamaOptions>()},
      {"gemma3", member_count<GemmaOptions>()},  {"gpt_oss", member_count<GptOssOptions>()},
      {"resnet", member_count<ResNetOptions>()}, {"vit", member_count<VitOptions>()},
      {"bert", member_count<BertOptions>()},     {"cosmoflow", member_count<CosmoFlowOptions>()},
      {"unet", member_count<UNetOptions>()},     {"deepcam", member_count<DeepCamOptions>()},
      {"mlp", member_count<MlpOptions>()}};
  std::map<std::string_view, std::size_t> rows;
  for (const Family& family : families())
    rows[family.keys.name] = family.keys.fields().size();

  EXPECT_EQ(rows, members);
}

TEST(ConfigTable, NoTwoRowsShareAKeyOrAMember) {
  Config config = default_config();
  std::set<std::string_view> keys;
  std::set<const void*> members;
  for (const Field& field : key_table().fields()) {
    keys.insert(field.key);
    members.insert(std::visit(
        []<typename Member>(Member member) -> const void* {
          if constexpr (std::is_same_v<Member, config::ChoiceSlot>) {
            return member.member();
          } else {
            return member;
          }
        },
        field.slot(config)));
  }

  EXPECT_EQ(keys.size(), key_table().fields().size());
  EXPECT_EQ(members.size(), key_table().fields().size());
}

TEST(ConfigTable, SettingAKeyChangesThatFieldAloneAndSurvivesPrinting) {
  for (const Field& field : key_table().fields()) {
    const std::string value = other_value(field);
    if (value.empty()) continue;

    const Config changed = parsed("run: {}", {field.key + "=" + value});

    EXPECT_EQ(differing_fields(changed, default_config()), 1U) << field.key;
    EXPECT_FALSE(changed == default_config()) << field.key;
    EXPECT_EQ(parsed(to_yaml(changed)), changed) << field.key;
  }
}

TEST(ConfigTable, DefaultsAreWithinTheirOwnLimits) {
  EXPECT_EQ(parsed(to_yaml(default_config())), default_config());
}

TEST(ConfigTable, ConditionsNameAnExistingChoice) {
  for (const Field& field : key_table().fields()) {
    if (field.only_with.key.empty()) continue;
    const Field* const other = key_table().find(field.only_with.key);
    ASSERT_NE(other, nullptr) << field.key;
    EXPECT_THAT(std::get<config::Choices>(other->limits).words,
                testing::IsSupersetOf(field.only_with.values))
        << field.key;
  }
}

TEST(ConfigTable, EveryRowIsDocumented) {
  const auto docs = field_docs();

  EXPECT_EQ(docs.size(), key_table().fields().size());
  for (const FieldDoc& doc : docs) {
    EXPECT_FALSE(doc.type.empty()) << doc.key;
    EXPECT_FALSE(doc.description.empty()) << doc.key;
    EXPECT_FALSE(doc.allowed.empty() && (doc.type == "integer" || doc.type == "number")) << doc.key;
  }
}

TEST(ConfigYaml, KeepsTextThatYamlWouldMisread) {
  for (const char* const text :
       {"null",  "~",           "true", "1e5", "a: b", "a #b", "- x", "'q'",
        "\"q\"", "back\\slash", "[x]",  "{x}", "*a",   "&a",   "!t",  " padded ",
        "π",     "%x",          "@x",   "`x",  "a,b",  "? x",  "..."}) {
    Config config = default_config();
    config.run.directory = text;
    EXPECT_EQ(parsed(to_yaml(config)).run.directory, text);
  }
}

TEST(ConfigYaml, KeepsEveryBitOfNumbers) {
  Config config = default_config();
  config.optimizer.learning_rate = 0.1 + 0.2;
  config.optimizer.epsilon = 4.9406564584124654e-324;
  config.run.seed = ~0ULL;
  config.data.mean = {1.0 / 3, -1e6};

  EXPECT_EQ(parsed(to_yaml(config)), config);
}

}  // namespace
}  // namespace trireme
