// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "runtime/parallel/grad_reducer.h"

namespace trireme {
namespace {

constexpr int most = 64;

// The expression at level 0 after all micro-batches.
std::string sum_of(const PartialSums& sums) {
  std::vector<std::string> levels(static_cast<std::size_t>(sums.levels()));
  const auto add = [](std::string& to, const std::string& what) {
    to = to.empty() ? what : fmt::format("({}+{})", to, what);
  };
  for (int m = 0; m < sums.micro_batches; ++m) {
    const int leaf = sums.level(m);
    std::string& here = levels.at(static_cast<std::size_t>(leaf));
    if (sums.sharded || sums.sum == GradientSum::tree)
      here.clear();  // the old value is overwritten
    add(here, std::to_string(m));
    for (int level = leaf; level > leaf - sums.merges(m); --level)
      add(levels.at(static_cast<std::size_t>(level) - 1), levels[static_cast<std::size_t>(level)]);
  }
  return levels[0];
}

// The tree of reduce_tree(): the left half is the largest power of two below `count`.
std::string balanced_tree(unsigned first, unsigned count) {
  if (count == 1) return std::to_string(first);
  const unsigned left = std::bit_ceil(count) / 2;
  return fmt::format("({}+{})", balanced_tree(first, left),
                     balanced_tree(first + left, count - left));
}

TEST(PartialSums, MakeTheBalancedTreeForEveryNumberOfMicroBatches) {
  ASSERT_EQ(balanced_tree(0, 6), "(((0+1)+(2+3))+(4+5))");
  for (int count = 1; count <= most; ++count) {
    for (const bool sharded : {false, true}) {
      EXPECT_EQ(sum_of({.sum = GradientSum::tree, .sharded = sharded, .micro_batches = count}),
                balanced_tree(0, static_cast<unsigned>(count)))
          << count << " micro-batches";
    }
  }
}

TEST(PartialSums, OfATreeAreAtMostItsDepth) {
  for (int count = 1; count <= most; ++count) {
    const PartialSums sums{.sum = GradientSum::tree, .micro_batches = count};

    EXPECT_LE(sums.levels(), std::bit_width(static_cast<unsigned>(count)));
    for (int m = 0; m < count; ++m)
      EXPECT_LT(sums.level(m), sums.levels());
  }
  EXPECT_EQ((PartialSums{.sum = GradientSum::tree, .micro_batches = 64}.levels()), 7);
}

TEST(PartialSums, AddOneMicroBatchAfterAnotherInFastMode) {
  for (const bool sharded : {false, true}) {
    const PartialSums sums{.sharded = sharded, .micro_batches = 4};

    EXPECT_EQ(sum_of(sums), "(((0+1)+2)+3)");
    EXPECT_EQ(sums.levels(), sharded ? 2 : 1);
  }
  EXPECT_EQ((PartialSums{.sharded = true, .micro_batches = 1}.levels()), 1);
}

}  // namespace
}  // namespace trireme
