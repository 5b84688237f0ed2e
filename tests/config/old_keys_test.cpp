// SPDX-License-Identifier: Apache-2.0
// Keys of earlier versions: in files of today, in config.yaml of old runs, on command lines and in
// the state of checkpoints.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "runtime/config/key_table.h"
#include "runtime/config/value.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::vector<const config::Field*> renamed_fields() {
  std::vector<const config::Field*> renamed;
  for (const config::Field& field : key_table().fields()) {
    if (!field.formerly.empty()) renamed.push_back(&field);
  }
  return renamed;
}

// "parallel.x" as the lines of a file.
std::string in_section(std::string_view key, const std::string& value) {
  const auto dot = key.find('.');
  return fmt::format("{}:\n  {}: {}\n", key.substr(0, dot), key.substr(dot + 1), value);
}

TEST(RenamedKeys, AreTenAndTheNewNamesAreTheOnesShown) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const config::Field* field : renamed_fields())
    names.emplace_back(field->formerly, field->key);

  EXPECT_THAT(names, ElementsAre(Pair("model.init_deviation", "model.init_std"),
                                 Pair("model.rope_low_turns", "model.rope_low_freq_factor"),
                                 Pair("model.rope_high_turns", "model.rope_high_freq_factor"),
                                 Pair("model.mask_share", "model.mask_probability"),
                                 Pair("model.taps", "model.kernel_size"),
                                 Pair("data.deviation", "data.std"),
                                 Pair("data.quarter_turns", "data.random_rot90"),
                                 Pair("parallel.expert_buffer", "parallel.expert_capacity_factor"),
                                 Pair("parallel.virtual_tensor", "parallel.tensor_blocks"),
                                 Pair("parallel.watch_seconds", "parallel.timeout_seconds")));
  const std::string table = field_table_markdown(), yaml = to_yaml(default_config());
  for (const auto& [old, now] : names) {
    EXPECT_THAT(table, testing::Not(HasSubstr(old)));
    EXPECT_THAT(table, HasSubstr(now));
    EXPECT_THAT(yaml, testing::Not(HasSubstr(old.substr(old.find('.') + 1) + ":")));
  }
}

TEST(RenamedKeys, AreReadInAFileWithALineThatNamesTheNewOne) {
  for (const config::Field* field : renamed_fields()) {
    const std::string value = field->key == "data.std"                 ? "[0.5]"
                              : field->key == "data.random_rot90"      ? "true"
                              : field->key == "model.mask_probability" ? "0.5"
                                                                       : "4";
    Provenance where;
    const Config config = parse_config(in_section(field->formerly, value), "a.yaml", {}, &where);

    EXPECT_EQ(format_value(*field, config), value) << field->key;
    EXPECT_THAT(
        where.notices,
        ElementsAre(fmt::format("a.yaml:2: {}: this key is now called {}; the old name still works",
                                field->formerly, field->key)));
    EXPECT_EQ(where.describe(field->key), fmt::format("a.yaml:2: {}", field->formerly));
    EXPECT_THAT(requested_yaml(config, where), HasSubstr(std::string(field->name()) + ": "));
  }
}

TEST(RenamedKeys, AreReadOnTheCommandLineAndReplaceWhatTheFileSays) {
  Provenance where;
  const Config config = parse_config("parallel: {timeout_seconds: 7}\n", "a.yaml",
                                     {"parallel.watch_seconds=9"}, &where);

  EXPECT_EQ(config.parallel.timeout_seconds, 9);
  EXPECT_THAT(
      where.notices,
      ElementsAre(HasSubstr(
          "--set parallel.watch_seconds=9: this key is now called parallel.timeout_seconds")));
  EXPECT_EQ(parsed("parallel: {watch_seconds: 7}\n", {"parallel.timeout_seconds=9"})
                .parallel.timeout_seconds,
            9);
}

TEST(RenamedKeys, UnderBothNamesInOneSourceAreRefusedWithBothPlaces) {
  EXPECT_EQ(parse_error("parallel:\n  watch_seconds: 7\n  timeout_seconds: 7\n"),
            "a.yaml:3: parallel.timeout_seconds: the same key as a.yaml:2: parallel.watch_seconds, "
            "under its old name; keep parallel.timeout_seconds");
  EXPECT_EQ(parse_error("parallel:\n  timeout_seconds: 7\n  watch_seconds: 7\n"),
            "a.yaml:3: parallel.watch_seconds: the same key as a.yaml:2: parallel.timeout_seconds, "
            "under its new name; keep parallel.timeout_seconds");
  EXPECT_EQ(
      parse_error("run: {}", {"data.std=[1]", "data.deviation=[2]"}),
      "--set data.deviation=[2]: the same key as --set data.std=[1], under its new name; keep "
      "data.std");
}

TEST(RenamedKeys, AreNamedAsTheyWereTypedWhereARuleRefusesThem) {
  EXPECT_EQ(refusal(gpt, {"parallel.virtual_tensor=8"}),
            "--set parallel.virtual_tensor=8: 8 does not divide model.heads = 4; use 1, 2 or 4");
  EXPECT_EQ(parse_error("parallel: {watch_seconds: -1}"),
            "a.yaml:1: parallel.watch_seconds: -1 is out of range; allowed: 0 to 1000000");
}

TEST(RemovedKeys, WithTheValueThatTheyHadAreIgnoredWithOneLine) {
  Provenance where;
  const Config config = parse_config(
      "telemetry:\n"
      "  {wandb: false, trace: \"\"}\n",
      "a.yaml", {}, &where);

  EXPECT_EQ(config, parsed("run: {}"));
  EXPECT_THAT(where.places, ElementsAre(Pair("telemetry.trace", "a.yaml:2: telemetry.trace")));
  EXPECT_THAT(where.notices,
              ElementsAre("a.yaml: telemetry.wandb: ignored; these keys were removed"));
  EXPECT_EQ(parsed("telemetry:\n"), parsed("run: {}"));
  EXPECT_THAT(parse_error("telemetry: 5"), HasSubstr("expected a section of keys such as"));
}

TEST(RemovedKeys, ReplacedByAScriptNameIt) {
  Provenance where;
  const Config config = parse_config("telemetry: {wandb: true, mlflow: false}", "a.yaml",
                                     {"telemetry.mlflow=true"}, &where);

  EXPECT_EQ(config, parsed("run: {}"));
  EXPECT_THAT(where.notices,
              ElementsAre("a.yaml:1: telemetry.wandb: ignored; this key was removed, use "
                          "scripts/export_run.py wandb RUN",
                          "--set telemetry.mlflow=true: ignored; this key was removed, use "
                          "scripts/export_run.py mlflow RUN",
                          "a.yaml: telemetry.mlflow: ignored; these keys were removed"));
}

// A config of a published version keeps its meaning: its keys are read, and missing keys have the
// defaults of that version.
TEST(PublishedKeys, AreReadAndHaveTheirDefaults) {
  std::ifstream published("tests/config/published_keys.txt");
  int count = 0;
  for (std::string line; std::getline(published, line);) {
    if (line.starts_with('#')) continue;
    SCOPED_TRACE(line);
    const auto key_at = line.find(' ') + 1, value_at = line.find(' ', key_at) + 1;
    const std::string key = line.substr(key_at, value_at - 1 - key_at),
                      value = line.substr(value_at);
    const bool has_section = key.find('.') != std::string::npos;
    const std::string text = has_section ? in_section(key, value) : key + ": " + value + "\n";
    Config config = parsed(text);
    // Ranks are compared more often than then, which changes no result.
    if (key == "train.divergence_check_every")
      config.train.divergence_check_every = TrainConfig{}.divergence_check_every;
    // Still 4 on CPUs.
    if (key == "parallel.bucket_megabytes") config.parallel.bucket_megabytes = 0;
    // Models without experts have the same layout with every value up to parallel.tensor.
    if (key == "parallel.expert") config.parallel.expert = ParallelConfig{}.expert;
    // More files are written than then, which changes no result either.
    if (key == "telemetry.tensorboard") config.telemetry = {};
    EXPECT_EQ(config, parsed("run: {}"));
    ++count;
  }
  EXPECT_EQ(count, 93);
}

TEST(PublishedKeys, RenamedOnesAreInTheReadme) {
  std::ifstream file("configs/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  for (const config::Field* const field : renamed_fields())
    EXPECT_THAT(readme, HasSubstr(fmt::format("| `{}` | `{}` | ", field->formerly, field->key)));
}

TEST(OldState, OfACheckpointIsComparedUnderTheKeysOfToday) {
  EXPECT_THAT(
      under_current_keys({{"data.deviation", "[0.5]"}, {"telemetry.wandb", "false"}, {"x.y", "3"}}),
      ElementsAre(Pair("data.std", "[0.5]"), Pair("x.y", "3")));
}

}  // namespace
}  // namespace trireme
