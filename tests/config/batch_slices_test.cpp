// SPDX-License-Identifier: Apache-2.0
// The micro-batches of each data rank, against the tree over all of them.
#include "runtime/config/batch_slices.h"

#include <gtest/gtest.h>

#include "runtime/base/sum_tree.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

constexpr std::int64_t most = 70;

TEST(BatchSlices, AreAsEvenAsPossible) {
  EXPECT_EQ(BatchSlices::even(8, 3).to_string(), "3, 3, 2");
  EXPECT_EQ(BatchSlices::even(9, 4).to_string(), "3, 2, 2, 2");
  EXPECT_EQ(BatchSlices::even(12, 2).to_string(), "6, 6");
  EXPECT_EQ(BatchSlices::even(40, 17).to_string(), "3 x 6, 2 x 11");
}

TEST(BatchSlices, NumberTheMicroBatchesOfRanksThatTakeTurns) {
  const auto numbers = [](const BatchSlices& slices, std::int64_t rank) {
    std::vector<std::int64_t> all;
    for (std::int64_t m = 0; m < slices.of(rank).count; ++m)
      all.push_back(slices.number(rank, m, slices.of(rank).count));
    return all;
  };
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(numbers(BatchSlices::even(8, 4), 1), (Numbers{2, 3}));
  EXPECT_EQ(numbers(BatchSlices::even(8, 4, 4), 1), (Numbers{1, 5}));
  EXPECT_EQ(numbers(BatchSlices::even(8, 4, 2), 1), (Numbers{1, 3}));
  EXPECT_EQ(numbers(BatchSlices::even(8, 4, 2), 2), (Numbers{4, 6}));
  EXPECT_EQ(numbers(BatchSlices::even(8, 3), 1), (Numbers{3, 4, 5}));
  EXPECT_EQ(numbers(BatchSlices::tree(8, 3), 2), (Numbers{6, 7}));
}

TEST(BatchSlices, OfATreeAreHalvesOfPowersOfTwo) {
  struct Case {
    std::int64_t micro_batches, ranks;
    const char* counts;
    std::int64_t doubled;
  };
  for (const Case& one :
       {Case{8, 1, "8", 0}, Case{8, 2, "4, 4", 0}, Case{8, 3, "4, 2, 2", 1},
        Case{8, 4, "2, 2, 2, 2", 0}, Case{8, 5, "2, 2, 2, 1, 1", 3},
        Case{8, 6, "2, 2, 1, 1, 1, 1", 2}, Case{8, 7, "2, 1, 1, 1, 1, 1, 1", 1},
        Case{8, 8, "1, 1, 1, 1, 1, 1, 1, 1", 0}, Case{12, 2, "8, 4", 1}, Case{12, 3, "4, 4, 4", 0},
        Case{12, 4, "4, 4, 2, 2", 2}, Case{24, 5, "8, 4, 4, 4, 4", 1},
        Case{24, 7, "4, 4, 4, 4, 4, 2, 2", 5}, Case{7, 2, "4, 3", 0}, Case{11, 4, "4, 4, 2, 1", 2},
        Case{5, 1, "5", 0}}) {
    const BatchSlices slices = BatchSlices::tree(one.micro_batches, one.ranks);
    EXPECT_EQ(slices.to_string(), one.counts);
    EXPECT_EQ(slices.doubled(), one.doubled) << one.counts;
  }
}

TEST(BatchSlices, CoverTheBatchInOrderWithOneForEveryRank) {
  for (std::int64_t count = 1; count <= most; ++count) {
    for (std::int64_t ranks = 1; ranks <= count; ++ranks) {
      for (const BatchSlices& slices :
           {BatchSlices::even(count, ranks), BatchSlices::tree(count, ranks)}) {
        std::int64_t next = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const BatchSlices::Run run = slices.of(rank);
          ASSERT_EQ(run.first, next) << slices.to_string();
          ASSERT_GE(run.count, 1) << slices.to_string();
          ASSERT_LE(run.count, slices.largest()) << slices.to_string();
          next += run.count;
        }
        ASSERT_EQ(next, count) << slices.to_string();
      }
    }
  }
}

// The tree over `count` micro-batches from `begin` equals the one over ranks [rank, rank + ranks).
void expect_cut(const BatchSlices& slices, std::int64_t begin, std::int64_t count,
                std::int64_t rank, std::int64_t ranks) {
  ASSERT_EQ(slices.of(rank).first, begin) << slices.to_string();
  if (ranks == 1) {
    ASSERT_EQ(slices.of(rank).count, count) << slices.to_string();
    return;
  }
  const auto left = static_cast<std::int64_t>(left_half(0, static_cast<std::size_t>(count)));
  const auto left_ranks = static_cast<std::int64_t>(
      left_half(static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks),
                static_cast<std::size_t>(slices.doubled())));
  expect_cut(slices, begin, left, rank, left_ranks);
  expect_cut(slices, begin + left, count - left, rank + left_ranks, ranks - left_ranks);
}

TEST(BatchSlices, OfATreeAreNodesOfItAndTheTreeOverRanksIsItsTop) {
  for (std::int64_t count = 1; count <= most; ++count) {
    for (std::int64_t ranks = 1; ranks <= count; ++ranks)
      ASSERT_NO_FATAL_FAILURE(expect_cut(BatchSlices::tree(count, ranks), 0, count, 0, ranks));
  }
}

TEST(BatchSlices, OfATreeAreTheEvenOnesWhereThoseArePowersOfTwo) {
  for (std::int64_t ranks = 1; ranks <= most; ++ranks) {
    for (std::int64_t local = 1; local <= 16; local *= 2) {
      const BatchSlices slices = BatchSlices::tree(ranks * local, ranks);
      EXPECT_TRUE(slices.equal()) << slices.to_string();
      EXPECT_EQ(slices.doubled(), 0) << slices.to_string();
    }
  }
}

TEST(BatchSlices, NeedAMicroBatchForEveryRank) {
  const auto error = test::error_of([] { static_cast<void>(BatchSlices::tree(2, 3)); });
  ASSERT_TRUE(error.has_value());
  EXPECT_NE(std::string(error->what()).find("2 micro-batches for 3 ranks"), std::string::npos);
}

}  // namespace
}  // namespace trireme
