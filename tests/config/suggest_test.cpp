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

}  // namespace
}  // namespace trireme::config
