// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/suggest.h"

#include <gtest/gtest.h>

#include <array>

namespace trireme::config {
namespace {

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

}  // namespace
}  // namespace trireme::config
