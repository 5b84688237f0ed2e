// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme {
namespace {

std::string nested(std::size_t depth, char open, char close) {
  return std::string(depth, open) + std::string(depth, close);
}

TEST(Json, IsReadToItsDeepestLevelAndNoDeeper) {
  const std::string most = nested(deepest_json, '[', ']');
  const std::string more = nested(deepest_json + 1, '[', ']');

  EXPECT_EQ(parse_json(most).dump(), most);
  EXPECT_EQ(json_or_discarded<nlohmann::ordered_json>(most).dump(), most);
  EXPECT_THROW(static_cast<void>(parse_json(more)), JsonFault);
  EXPECT_TRUE(json_or_discarded(more).is_discarded());
  EXPECT_THROW(static_cast<void>(parse_json(std::string(10'000'000, '['))), JsonFault);
  EXPECT_TRUE(json_or_discarded(R"({"a":)" + std::string(10'000'000, '[')).is_discarded());
}

TEST(Json, BracketsInTextsAndValuesBesideEachOtherAreNotNested) {
  const std::string text =
      "[\"" + std::string(1000, '[') + R"(\")" + std::string(1000, '{') + "\"]";
  std::string beside = "[[]";
  for (int i = 0; i < 1000; ++i)
    beside += ",[]";

  EXPECT_EQ(parse_json(text).at(0).get<std::string>().size(), 2001U);
  EXPECT_EQ(parse_json(beside + "]").size(), 1001U);
  EXPECT_THROW(static_cast<void>(parse_json("[\"\\\\\"" + std::string(200, '['))), JsonFault);
  EXPECT_THROW(static_cast<void>(parse_json("[1")), nlohmann::json::parse_error);
}

TEST(Json, BytesBehindANulAreNotLeftOut) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"[1]\0[2]"sv, "[1]\0"sv, "\0[1]"sv, "[\"a\0b\"]"sv}) {
    EXPECT_THROW(static_cast<void>(parse_json(text)), JsonFault);
    EXPECT_TRUE(json_or_discarded(text).is_discarded());
  }
  EXPECT_EQ(parse_json(R"(["a\u0000b"])").at(0).get<std::string>().size(), 3U);
}

}  // namespace
}  // namespace trireme
