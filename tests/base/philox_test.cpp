// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string_view>

namespace trireme {
namespace {

using testing::ElementsAre;

// Known-answer vectors of Philox4x32-10 published with Random123 (tests/kat_vectors): counter words
// 0..3, key words 0..1, output words 0..3.
TEST(Philox, MatchesThePublishedVectorOfZeros) {
  EXPECT_THAT((Philox{0, 0}(0, 0)),
              ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
}

TEST(Philox, MatchesThePublishedVectorOfOnes) {
  EXPECT_THAT((Philox{0xffffffffU, 0xffffffffU}(~0ULL, ~0ULL)),
              ElementsAre(0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU));
}

TEST(Philox, MatchesThePublishedVectorOfPi) {
  // Counter words 243f6a88 85a308d3 13198a2e 03707344, least significant first.
  EXPECT_THAT((Philox{0xa4093822U, 0x299f31d0U}(0x0370734413198a2eULL, 0x85a308d3243f6a88ULL)),
              ElementsAre(0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));
}

TEST(Philox, IsAConstantExpression) {
  static_assert(Philox{0, 0}(0, 0)[0] == 0x6627e8d5U);
}

TEST(Philox, KeysDifferBySeedAndByPurpose) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1234ULL, 1ULL << 32, ~0ULL}) {
    for (const RandomPurpose purpose :
         {RandomPurpose::init, RandomPurpose::dropout, RandomPurpose::shuffle,
          RandomPurpose::augment, RandomPurpose::sample, RandomPurpose::test}) {
      const Philox generator = Philox::keyed(seed, purpose);
      keys.insert({generator.key0, generator.key1});
    }
  }

  EXPECT_EQ(keys.size(), 30U);
}

TEST(Philox, EveryCounterBitChangesTheDraw) {
  const Philox generator = Philox::keyed(1, RandomPurpose::test);
  const auto origin = generator(0, 0);

  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(generator(0, 1ULL << bit), origin) << "low bit " << bit;
    EXPECT_NE(generator(1ULL << bit, 0), origin) << "high bit " << bit;
  }
}

TEST(Philox, UniformStaysBelowOneAtBothEnds) {
  EXPECT_EQ(Philox::uniform(0), 0.0F);
  EXPECT_LT(Philox::uniform(0xffffffffU), 1.0F);
  EXPECT_EQ(Philox::uniform(0x80000000U), 0.5F);
}

TEST(Philox, UniformDrawsHaveTheMeanAndVarianceOfTheUniformDistribution) {
  const Philox generator = Philox::keyed(42, RandomPurpose::test);
  constexpr int draws = 1 << 16;
  double sum = 0;
  double squares = 0;

  for (int i = 0; i < draws / 4; ++i) {
    for (const std::uint32_t word : generator(0, static_cast<std::uint64_t>(i))) {
      const double value = Philox::uniform(word);
      sum += value;
      squares += value * value;
    }
  }
  const double mean = sum / draws;
  const double variance = squares / draws - mean * mean;

  // Standard errors: sqrt(1/12 / 65536) = 0.0011 and sqrt(1/180 / 65536) = 0.0003; five of each.
  EXPECT_NEAR(mean, 0.5, 0.0057);
  EXPECT_NEAR(variance, 1.0 / 12, 0.0015);
}

// Published FNV-1a 64-bit values (draft-eastlake-fnv, test vectors).
TEST(StableId, IsFnv1a) {
  constexpr auto id = [](std::string_view text) { return stable_id(text.data(), text.size()); };

  EXPECT_EQ(id(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(id("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(id("foobar"), 0x85944171f73967e8ULL);
}

TEST(StableId, ReadsBytesAbove127AsUnsigned) {
  const char high = static_cast<char>(0xff);

  EXPECT_EQ(stable_id(&high, 1), (0xcbf29ce484222325ULL ^ 0xffU) * 0x100000001b3ULL);
}

}  // namespace
}  // namespace trireme
