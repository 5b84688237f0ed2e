// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/spatial.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

constexpr SpatialSplit split_of(int rank) {
  return {.ranks = {2, 1, 2}, .slabs = {4, 3, 2}, .rank = rank};
}
const Shape volume{2, 9, 7, 5, 3};

TEST(SpatialTest, SlabsHoldEveryPositionOnce) {
  const Slabs slabs(split_of(0), volume);
  std::set<std::array<std::int64_t, 3>> seen;
  for (const Slabs::Slab& slab : slabs.all()) {
    for (std::int64_t d = slab.box.begin[0]; d < slab.box.end[0]; ++d)
      for (std::int64_t h = slab.box.begin[1]; h < slab.box.end[1]; ++h)
        for (std::int64_t w = slab.box.begin[2]; w < slab.box.end[2]; ++w)
          EXPECT_TRUE(seen.insert({d, h, w}).second);
  }
  EXPECT_EQ(seen.size(), 9U * 7 * 5);
}

TEST(SpatialTest, SlabsOfAnAxisDifferByOnePositionAtMost) {
  const Slabs slabs(split_of(0), volume);
  for (const Slabs::Slab& slab : slabs.all()) {
    EXPECT_TRUE(slab.box.extent(0) == 2 || slab.box.extent(0) == 3);
    EXPECT_TRUE(slab.box.extent(1) == 2 || slab.box.extent(1) == 3);
    EXPECT_TRUE(slab.box.extent(2) == 2 || slab.box.extent(2) == 3);
  }
}

TEST(SpatialTest, SlabsDoNotDependOnTheRanksThatShareThem) {
  SpatialSplit alone = split_of(0);
  alone.ranks = {1, 1, 1};
  const Slabs all(alone, volume), shared(split_of(3), volume);
  std::set<std::array<std::int64_t, 3>> begins, others;
  for (const Slabs::Slab& slab : all.all())
    begins.insert(slab.box.begin);
  for (const Slabs::Slab& slab : shared.all())
    others.insert(slab.box.begin);
  EXPECT_EQ(begins, others);
}

TEST(SpatialTest, RanksTogetherHoldAllElements) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < 4; ++rank)
    sum += split_of(rank).held(volume).count();
  EXPECT_EQ(sum, volume.count());
}

TEST(SpatialTest, ATensorWithFewerPositionsThanSlabsIsWholeOnEveryRank) {
  const Shape low{2, 9, 2, 5, 3}, image{2, 7, 5, 3}, rows{18, 3};
  EXPECT_EQ(split_of(1).held(low), low);
  EXPECT_EQ(split_of(1).held(image), image);  // its depth is 1
  EXPECT_EQ(split_of(1).held(rows), rows);
  EXPECT_EQ(Slabs(split_of(1), low).local().size(), 1U);
}

}  // namespace
}  // namespace trireme
