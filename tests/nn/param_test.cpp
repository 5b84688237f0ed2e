// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

struct Cut {
  Shape shape{};
  int axis = 0;
  int parts = 1;
  int blocks = 1;
  int lead = 1;
  [[nodiscard]] ParamSpec spec() const {
    return {
        .name = "w", .shape = shape, .shard_axis = axis, .shard_parts = parts, .shard_lead = lead};
  }
  [[nodiscard]] std::string to_string() const {
    return fmt::format("{} axis {} in {} parts, the first {} times as long, {} blocks",
                       shape.to_string(), axis, parts, lead, blocks);
  }
};

// Every axis, part count and block count on 1-D, 2-D and 4-D tensors.
std::vector<Cut> all_cuts() {
  std::vector<Cut> cuts;
  for (const int parts : {1, 3}) {
    for (const int blocks : {1, 2, 4, 8}) {
      for (const Shape& shape : {Shape{48}, Shape{24, 5}, Shape{24, 2, 3, 2}})
        cuts.push_back({shape, 0, parts, blocks});
      cuts.push_back({{5, 24}, 1, parts, blocks});
      cuts.push_back({{5, 7}, -1, parts, blocks});
      cuts.push_back({{80, 3}, 0, 3, blocks, 3});
      cuts.push_back({{3, 96}, 1, 2, blocks, 5});
    }
  }
  return cuts;
}

template <typename Action>
void for_each_rank(int blocks, Action&& action) {
  for (int ranks = 1; ranks <= blocks; ranks *= 2) {
    for (int rank = 0; rank < ranks; ++rank)
      action(TensorSplit{.ranks = ranks, .rank = rank, .blocks = blocks});
  }
}

// How often each element of the whole tensor and of the rank's storage is visited.
void visit(const ParamSpec& spec, const TensorSplit& split, std::vector<int>& whole,
           std::vector<int>& stored) {
  stored.assign(static_cast<std::size_t>(stored_shape(spec, split).count()), 0);
  for_each_run(spec, split, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      ++stored.at(static_cast<std::size_t>(from + i));
      ++whole.at(static_cast<std::size_t>(to + i));
    }
  });
}

TEST(TensorBlocks, OfAllRanksHoldEveryElementOfTheWholeTensorOnce) {
  for (const Cut& cut : all_cuts()) {
    const ParamSpec spec = cut.spec();
    const bool split_at_all = cut.axis >= 0 && cut.blocks > 1;
    for (int ranks = 1; ranks <= cut.blocks; ranks *= 2) {
      std::vector<int> whole(static_cast<std::size_t>(spec.shape.count())), stored;
      for (int rank = 0; rank < ranks; ++rank) {
        visit(spec, {.ranks = ranks, .rank = rank, .blocks = cut.blocks}, whole, stored);
        EXPECT_EQ(stored, std::vector<int>(stored.size(), 1)) << cut.to_string();
      }
      const int copies = split_at_all ? 1 : ranks;  // unsplit parameters are on every rank
      EXPECT_EQ(whole, std::vector<int>(whole.size(), copies)) << cut.to_string();
    }
  }
}

TEST(TensorBlocks, AreConsecutiveWithAShareOfEveryPart) {
  for (const Cut& cut : all_cuts()) {
    if (cut.axis < 0 || cut.blocks == 1 || cut.lead > 1) continue;
    const ParamSpec spec = cut.spec();
    const std::int64_t axis = spec.shape[static_cast<std::size_t>(cut.axis)];
    const std::int64_t columns = spec.shape.count() / spec.shape[0];
    const std::int64_t share = axis / cut.parts / cut.blocks;  // per part and block
    for_each_rank(cut.blocks, [&](const TensorSplit& split) {
      for_each_run(spec, split, [&](std::int64_t stored, std::int64_t logical, std::int64_t) {
        const std::int64_t block = stored / (spec.shape.count() / cut.blocks);
        const std::int64_t inside = stored % (spec.shape.count() / cut.blocks);
        const std::int64_t width = cut.axis == 0 ? columns : columns / cut.blocks;
        const std::int64_t row = inside / width, column = inside % width;
        const std::int64_t along = cut.axis == 0 ? row : column;
        const std::int64_t whole_along =
            along / share * (axis / cut.parts) + (split.first() + block) * share + along % share;
        const std::int64_t expected =
            cut.axis == 0 ? whole_along * columns + column : row * columns + whole_along;
        EXPECT_EQ(logical, expected) << cut.to_string();
      });
    });
  }
}

// Six heads of queries that share two of keys, of size 2: each of two blocks has three heads of
// queries, their key and its value.
TEST(TensorBlocks, HaveALongerFirstPart) {
  const ParamSpec spec{
      .name = "qkv", .shape = {20}, .shard_axis = 0, .shard_parts = 3, .shard_lead = 3};
  std::vector<std::int64_t> second;
  for_each_run(spec, {.ranks = 2, .rank = 1, .blocks = 2},
               [&](std::int64_t stored, std::int64_t logical, std::int64_t count) {
                 EXPECT_EQ(stored, static_cast<std::int64_t>(second.size()));
                 for (std::int64_t i = 0; i < count; ++i)
                   second.push_back(logical + i);
               });

  EXPECT_EQ(second, (std::vector<std::int64_t>{6, 7, 8, 9, 10, 11, 14, 15, 18, 19}));
}

TEST(StoredShape, HasTheLocalBlocksInFront) {
  const ParamSpec qkv{.name = "qkv", .shape = {6, 72}, .shard_axis = 1, .shard_parts = 3};

  EXPECT_EQ(stored_shape(qkv, {}), (Shape{6, 72}));
  EXPECT_EQ(stored_shape(qkv, {.ranks = 1, .rank = 0, .blocks = 4}), (Shape{4, 6, 18}));
  EXPECT_EQ(stored_shape(qkv, {.ranks = 2, .rank = 1, .blocks = 4}), (Shape{2, 6, 18}));
}

TEST(StoredShape, OfUnsplitParametersIsTheWholeShape) {
  const ParamSpec norm{.name = "norm", .shape = {7}};

  EXPECT_EQ(stored_shape(norm, {.ranks = 2, .rank = 1, .blocks = 4}), Shape{7});
}

TEST(StoredShape, RefusesAnAxisThatBlocksAndPartsDoNotDivideNamingTheParameter) {
  const ParamSpec spec{.name = "qkv.bias", .shape = {36}, .shard_axis = 0, .shard_parts = 3};
  const TensorSplit split{.ranks = 1, .rank = 0, .blocks = 8};

  test::expect_error(
      ExitCode::internal, [&] { static_cast<void>(stored_shape(spec, split)); }, "qkv.bias", "(36)",
      "8 blocks");
  test::expect_error(
      ExitCode::internal, [&] { for_each_run(spec, split, [](auto, auto, auto) {}); }, "qkv.bias");
}

}  // namespace
}  // namespace trireme
