// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/suggest.h"

#include <gmock/gmock.h>

#include <array>
#include <sstream>

#include "tests/config/support.h"

namespace trireme::config {
namespace {

using testing::HasSubstr;

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("heads", "hads"), 1U);
  EXPECT_EQ(edit_distance("heads", "headss"), 1U);
  EXPECT_EQ(edit_distance("heads", "hexds"), 1U);
  EXPECT_EQ(edit_distance("heads", "haeds"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("Heads", "hEADS"), 0U);
}

TEST(Closest, FindsTheNearestOrNothing) {
  constexpr std::array<std::string_view, 3> words{"layers", "hidden", "heads"};

  EXPECT_EQ(closest("hiden", words), "hidden");
  EXPECT_EQ(closest("head", words), "heads");
  EXPECT_EQ(closest("optimizer", words), "");
  EXPECT_EQ(closest("", words), "");
  EXPECT_EQ(closest(std::string(1 << 20, 'h'), words), "");
}

// The advice of all names that other frameworks give to our keys.
TEST(Synonyms, LeadToKeysOfTheTableWhateverTheirSectionAndCase) {
  int names = 0;
  for (const Synonyms& row : all_synonyms()) {
    ASSERT_NE(key_table().find(row.key), nullptr) << row.key;
    std::istringstream words{std::string(row.names)};
    for (std::string name; words >> name; ++names) {
      EXPECT_EQ(key_table().find_former(name), nullptr) << name;
      for (const std::string& given : {name, "train." + name, "whatever." + name})
        EXPECT_THAT(advice_for_unknown_key(key_table(), given), HasSubstr(std::string(row.key)))
            << given;
    }
  }
  EXPECT_GE(names, 200);
  EXPECT_THAT(advice_for_unknown_key(key_table(), "optimizer.LR"),
              HasSubstr("optimizer.learning_rate"));
  EXPECT_THAT(advice_for_unknown_key(key_table(), "per-device-train-batch-size"),
              HasSubstr("train.micro_batch"));
  EXPECT_TRUE(keys_called("").empty());
}

TEST(ErrorsOfAConfig, AreShownAtOnceUpToTwentyWithTheirPlaces) {
  const std::string message = parse_error(
      "data:\n  path: x\n  workerz: 3\n  prefetch: many\ntrains: {steps: 3}\n"
      "model: {family: gpt2, layers: -2, heads: x}\n",
      {"train.steps=-3", "optimizer=sgd"});
  EXPECT_TRUE(message.starts_with("7 errors in the config:\n  a.yaml:3: data.workerz")) << message;
  for (const char* const part :
       {"a.yaml:4: data.prefetch", "a.yaml:5: trains", "a.yaml:6: model.layers",
        "a.yaml:6: model.heads", "--set train.steps=-3", "--set optimizer=sgd"})
    EXPECT_THAT(message, HasSubstr(part));

  // Which limits a model's key has is not known with an unknown family.
  EXPECT_THAT(parse_error("model: {family: gpt9, layers: -2}\n"),
              testing::AllOf(HasSubstr("gpt9"), testing::Not(HasSubstr("layers"))));

  std::vector<std::string> many;
  for (int i = 0; i < 25; ++i)
    many.push_back("train.key" + std::to_string(i) + "=1");
  EXPECT_THAT(parse_error("data: {path: x}\n", many),
              testing::AllOf(HasSubstr("25 errors"), HasSubstr("train.key19="),
                             testing::Not(HasSubstr("train.key20=")), HasSubstr("and 5 more")));
}

TEST(ErrorsOfAConfig, AreShownAtOnceForRulesThatDoNotNeedEachOther) {
  const Config config = parsed(
      "data: {path: x}\ntrain: {steps: 10}\nlr_schedule: {warmup_steps: 100}\n"
      "model: {family: gpt2, hidden: 256, heads: 5}\noptimizer: {name: adamw, momentum: 0.8}\n");
  const std::string message =
      config_error([&] { return resolve_config(config, Environment{.ranks = 1}); });
  for (const char* const part :
       {"3 errors", "lr_schedule.warmup_steps", "model.heads", "optimizer.momentum"})
    EXPECT_THAT(message, HasSubstr(part));
}

}  // namespace
}  // namespace trireme::config
