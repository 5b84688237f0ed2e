// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/expect_error.h"
#include "tests/support/sample_params.h"

namespace trireme {
namespace {

constexpr std::int64_t line = 16;  // elements that everything is aligned to
constexpr std::int64_t no_target = 1 << 20;

ParamLayout laid_out(const ZeroOptions& zero, std::int64_t target = 100,
                     const ParamSplits& split = {}) {
  ParamLayout layout(split, /*separate_ties=*/true);
  test::declare_sample(layout);
  layout.lay_out(zero, target);
  return layout;
}

// Every ZeRO stage on 1 to 8 ranks, from one bucket per parameter to one for all.
template <typename Action>
void for_each_layout(Action&& action) {
  for (const int stage : {0, 1, 2, 3}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const std::int64_t target : {std::int64_t{1}, std::int64_t{200}, no_target}) {
        SCOPED_TRACE(fmt::format("stage {}, {} ranks, target {}", stage, ranks, target));
        action(ZeroOptions{.stage = stage, .ranks = ranks, .rank = 0}, target);
      }
    }
  }
}

std::vector<ParamId> params_of(const ParamLayout& layout, std::size_t bucket) {
  std::vector<ParamId> params;
  for (const ParamId id : layout.order()) {
    if (layout.bucket_of(id) == static_cast<int>(bucket)) params.push_back(id);
  }
  return params;
}

TEST(ParamLayout, CoversTheArenaWithBucketsThatHoldWholeParameters) {
  for_each_layout([](const ZeroOptions& zero, std::int64_t target) {
    const ParamLayout layout = laid_out(zero, target);

    std::int64_t next = 0;
    for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
      const Bucket& bucket = layout.buckets()[b];
      EXPECT_EQ(bucket.first, next);
      std::int64_t end = bucket.first;
      const auto params = params_of(layout, b);
      for (const ParamId id : params) {
        EXPECT_EQ(layout.offset(id), end);
        EXPECT_EQ(end % line, 0);
        EXPECT_TRUE(bucket.units.contains(layout.unit_of(id)));
        end += (layout.spec(id).shape.count() + line - 1) / line * line;
      }
      EXPECT_EQ(bucket.params, static_cast<int>(params.size()));
      EXPECT_LE(end, bucket.first + bucket.count);
      next = bucket.first + bucket.count;
    }
    EXPECT_EQ(next, layout.elements());
  });
}

TEST(ParamLayout, OrdersTheArenaAsBackwardFinishesItWithStatisticsLast) {
  const ParamLayout layout = laid_out({});

  std::vector<std::string> names;
  for (const ParamId id : layout.order())
    names.push_back(layout.spec(id).name);

  EXPECT_EQ(names, (std::vector<std::string>{"head", "d.bias", "d.weight", "c.weight",
                                             "b.grouped.weight", "b.qkv.bias", "b.qkv.weight",
                                             "a.scale", "a.bias", "a.weight", "experts.bias",
                                             "experts.weight", "table", "c.running", "a.running"}));
  EXPECT_EQ(layout.weight_elements(), layout.offset(layout.find("c.running")));
}

TEST(ParamLayout, ClosesABucketOnceItHasReachedTheTarget) {
  const ParamLayout layout = laid_out({}, 200);

  for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
    const std::int64_t last = layout.offset(params_of(layout, b).back());
    EXPECT_LT(last - layout.buckets()[b].first, 200) << "bucket " << b;
  }
  EXPECT_EQ(layout.bucket_of(layout.find("d.bias")), layout.bucket_of(layout.find("c.weight")));
  EXPECT_NE(layout.bucket_of(layout.find("b.qkv.weight")),
            layout.bucket_of(layout.find("a.scale")));
}

TEST(ParamLayout, NeverJoinsTwoChunksInABucket) {
  ParamLayout layout({}, false);
  test::declare_sample(layout, 1, 5, {1, 3});
  layout.lay_out({}, no_target);

  EXPECT_EQ(layout.bucket_of(layout.find("a.weight")), layout.bucket_of(layout.find("b.qkv.bias")));
  EXPECT_NE(layout.bucket_of(layout.find("b.qkv.bias")), layout.bucket_of(layout.find("c.weight")));
  EXPECT_NE(layout.bucket_of(layout.find("a.running")), layout.bucket_of(layout.find("c.running")));
  EXPECT_EQ(layout.buckets().size(), 4U);  // weights and statistics of two chunks
}

TEST(ParamLayout, SeparatesLayersFromZeroStageTwoOn) {
  const auto shared = [](int stage) {
    const ParamLayout layout = laid_out({.stage = stage, .ranks = 2, .rank = 0}, no_target);
    return layout.bucket_of(layout.find("c.weight")) == layout.bucket_of(layout.find("d.bias"));
  };

  EXPECT_TRUE(shared(0));
  EXPECT_TRUE(shared(1));
  EXPECT_FALSE(shared(2));
  EXPECT_FALSE(shared(3));
}

TEST(ParamLayout, KeepsVectorsAfterTheMatricesOfTheirChunkOrUnit) {
  for (const int stage : {1, 2, 3}) {
    ParamLayout layout({}, false);
    test::declare_sample(layout, 1, 5, {1, 3});
    layout.lay_out({.stage = stage, .ranks = 2, .vectors_apart = true}, no_target);

    std::vector<std::string> order;
    for (const ParamId id : layout.order()) {
      const ParamSpec& spec = layout.spec(id);
      const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(layout.bucket_of(id))];
      EXPECT_EQ(bucket.matrices, spec.matrix) << spec.name;
      EXPECT_EQ(layout.keeps_slice(bucket),
                bucket.kind == ParamKind::weight && (stage == 3 || spec.matrix))
          << spec.name;
      if (spec.kind == ParamKind::weight) order.push_back(spec.name);
    }
    const std::vector<std::string> by_chunk{"d.weight",         "d.bias",       "c.weight",
                                            "b.grouped.weight", "b.qkv.weight", "a.weight",
                                            "b.qkv.bias",       "a.scale",      "a.bias"};
    const std::vector<std::string> by_unit{"d.weight",         "d.bias",       "c.weight",
                                           "b.grouped.weight", "b.qkv.weight", "b.qkv.bias",
                                           "a.weight",         "a.scale",      "a.bias"};
    EXPECT_EQ(order, stage == 1 ? by_chunk : by_unit) << "stage " << stage;
  }
}

TEST(ParamLayout, GivesSeparateTiedParametersEquallySlicedBuckets) {
  for_each_layout([](const ZeroOptions& zero, std::int64_t target) {
    const ParamLayout layout = laid_out(zero, target);
    const auto bucket = [&](const char* name) {
      return layout.buckets()[static_cast<std::size_t>(layout.bucket_of(layout.find(name)))];
    };

    EXPECT_EQ(bucket("table").params, 1);
    EXPECT_EQ(bucket("head").params, 1);
    EXPECT_EQ(bucket("table").count, bucket("head").count);
  });
}

TEST(ParamLayout, MergesTiedParametersUnlessSeparate) {
  ParamLayout layout({}, /*separate_ties=*/false);
  test::declare_sample(layout);
  layout.lay_out({}, no_target);
  const ParamLayout apart = laid_out({}, no_target);

  EXPECT_EQ(layout.find("head").index, -1);
  EXPECT_EQ(layout.specs().size() + 1, apart.specs().size());
  EXPECT_EQ(layout.parameter_count(), apart.parameter_count());
}

TEST(ParamLayout, PadsTheWeightsOfABucketToAMultipleOfTheRanksAndNoFurther) {
  for_each_layout([](const ZeroOptions& zero, std::int64_t target) {
    const ParamLayout layout = laid_out(zero, target);

    for (std::size_t b = 0; b < layout.buckets().size(); ++b) {
      const Bucket& bucket = layout.buckets()[b];
      const bool sliced = zero.stage >= 1 && bucket.kind == ParamKind::weight;
      const std::int64_t unit = sliced ? line * zero.ranks : line;
      std::int64_t used = 0;
      for (const ParamId id : params_of(layout, b))
        used += (layout.spec(id).shape.count() + line - 1) / line * line;
      EXPECT_EQ(bucket.count, (used + unit - 1) / unit * unit);
    }
  });
}

TEST(ParamLayout, CutsEveryBucketOfWeightsIntoTheSlicesOfAllRanks) {
  for_each_layout([](const ZeroOptions& zero, std::int64_t target) {
    for (int rank = 0; rank < zero.ranks; ++rank) {
      const ParamLayout layout =
          laid_out({.stage = zero.stage, .ranks = zero.ranks, .rank = rank}, target);
      std::int64_t owned = 0;
      for (const Bucket& bucket : layout.buckets()) {
        const bool sliced = zero.stage >= 1 && bucket.kind == ParamKind::weight;
        const std::int64_t slice = layout.slice_count(bucket);
        EXPECT_EQ(slice * (sliced ? zero.ranks : 1), bucket.count);
        EXPECT_EQ(layout.slice_first(bucket), bucket.first + (sliced ? rank * slice : 0));
        EXPECT_EQ(bucket.owned, owned);
        owned += slice;
      }
      EXPECT_EQ(owned, layout.owned_elements());
    }
  });
}

TEST(ParamLayout, CutsTheOwnSlicesIntoRunsThatTheOptimizerTreatsAlike) {
  for_each_layout([](const ZeroOptions& zero, std::int64_t target) {
    for (int rank = 0; rank < zero.ranks; ++rank) {
      const ParamLayout layout =
          laid_out({.stage = zero.stage, .ranks = zero.ranks, .rank = rank}, target);
      std::vector<std::vector<int>> seen;
      for (const Bucket& bucket : layout.buckets())
        seen.emplace_back(static_cast<std::size_t>(layout.slice_count(bucket)));
      for (const OwnedRun& run : layout.owned_runs()) {
        const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(run.bucket)];
        auto& places = seen[static_cast<std::size_t>(run.bucket)];
        for (std::int64_t i = run.first; i < run.first + run.count; ++i)
          ++places.at(static_cast<std::size_t>(i));
        test::for_each_owned(layout, bucket, [&](std::int64_t place, const ParamSpec& spec, auto) {
          if (place < run.first || place >= run.first + run.count) return;
          ASSERT_EQ(run.decay, spec.decay) << spec.name;
          ASSERT_EQ(run.kind, spec.kind) << spec.name;
          ASSERT_EQ(run.counted, !spec.is_copy()) << spec.name;
        });
      }
      for (const auto& places : seen)
        ASSERT_EQ(places, std::vector<int>(places.size(), 1));
    }
  });
}

TEST(ParamLayout, JoinsNeighboursThatTheOptimizerTreatsAlike) {
  ParamLayout layout({}, false);
  for (const char* const name : {"c", "b"})
    layout.declare({.name = name, .shape = {line}, .decay = true});
  layout.declare({.name = "a", .shape = {line}});
  layout.declare({.name = "s", .shape = {3}, .kind = ParamKind::statistic});
  layout.lay_out({}, no_target);

  ASSERT_EQ(layout.owned_runs().size(), 3U);
  EXPECT_FALSE(layout.owned_runs()[0].decay);
  EXPECT_TRUE(layout.owned_runs()[1].decay);
  EXPECT_EQ(layout.owned_runs()[1].count, 2 * line);
  EXPECT_EQ(layout.owned_runs()[2].kind, ParamKind::statistic);
}

TEST(ParamLayout, KeepsFrozenWeightsAfterTrainedOnes) {
  for (const int stage : {0, 3}) {
    ParamLayout layout({}, false);
    layout.declare({.name = "frozen", .shape = {line}, .kind = ParamKind::frozen});
    layout.declare({.name = "s", .shape = {3}, .kind = ParamKind::statistic});
    layout.declare({.name = "also", .shape = {5 * line}, .kind = ParamKind::frozen});
    const ParamId trained = layout.declare({.name = "trained", .shape = {line}});
    layout.lay_out({.stage = stage, .ranks = 2, .rank = 1}, no_target);

    EXPECT_EQ(layout.parameter_count(), line);
    EXPECT_EQ(layout.order()[0].index, trained.index);
    EXPECT_EQ(layout.spec(layout.order()[2]).name, "also");
    EXPECT_EQ(layout.owned_runs().size(), 2U);
    EXPECT_EQ(layout.elements() - layout.trained_elements(), 6 * line);
    EXPECT_EQ(layout.owned_elements() - layout.owned_trained_elements(), 6 * line)
        << "frozen weights are whole on every rank";
  }
}

// Over tensor ranks, and over data ranks if the weights are sliced.
TEST(ParamLayout, CountsEveryLogicalElementOnceInTheNorm) {
  struct Grid {
    int slices, sharing;  // data ranks with other slices, and that share experts
  };
  for (const int stage : {0, 1, 2, 3}) {
    for (const int tensor : {1, 2, 4}) {
      for (const Grid grid : {Grid{3, 1}, {2, 2}, {4, 2}, {1, 2}}) {
        std::map<std::string, std::vector<int>> counts;
        const int slices = stage == 0 ? 1 : grid.slices;
        const int data = std::max(slices, grid.sharing);
        for (int rank = 0; rank < data * tensor; ++rank) {
          const int experts = grid.sharing * tensor;
          const ParamLayout layout =
              laid_out({.stage = stage, .ranks = slices, .rank = rank / tensor % slices}, 200,
                       {{.ranks = tensor, .rank = rank % tensor, .blocks = 4},
                        {.ranks = experts, .rank = rank % experts, .blocks = experts}});
          for (const ParamSpec& spec : layout.specs())
            counts[spec.name].resize(static_cast<std::size_t>(spec.shape.count()));
          for (const OwnedRun& run : layout.owned_runs()) {
            if (!run.counted || run.kind != ParamKind::weight) continue;
            test::for_each_owned(layout, layout.buckets()[static_cast<std::size_t>(run.bucket)],
                                 [&](std::int64_t place, const ParamSpec& spec, std::int64_t i) {
                                   if (place >= run.first && place < run.first + run.count)
                                     ++counts[spec.name].at(static_cast<std::size_t>(i));
                                 });
          }
        }
        for (const auto& [name, times] : counts) {
          const bool once = name != "head" && !name.ends_with(".running");
          EXPECT_EQ(times, std::vector<int>(times.size(), once ? 1 : 0))
              << name << ", stage " << stage << ", " << tensor << " tensor ranks, experts on "
              << grid.sharing << " data ranks, slices on " << slices;
        }
      }
    }
  }
}

TEST(ParamLayout, SlicesExpertsOverTheRanksThatHoldTheSameOnes) {
  const auto slices = [](int ranks, int rank, int sharing) {
    const ParamLayout layout = laid_out({.stage = 1, .ranks = ranks, .rank = rank}, 200,
                                        {{}, {sharing, rank % sharing, sharing}});
    const auto bucket_of = [&](const char* name) {
      return layout.buckets()[static_cast<std::size_t>(layout.bucket_of(layout.find(name)))];
    };
    const Bucket experts = bucket_of("experts.weight"), dense = bucket_of("c.weight");
    EXPECT_TRUE(experts.expert);
    EXPECT_EQ(bucket_of("experts.bias").expert, true);
    EXPECT_FALSE(dense.expert);
    EXPECT_NE(layout.bucket_of(layout.find("experts.weight")),
              layout.bucket_of(layout.find("table")));
    EXPECT_EQ(experts.experts, 0);
    EXPECT_EQ(layout.slice_count(dense), dense.count / ranks);
    EXPECT_EQ(layout.slice_count(experts), experts.count / layout.zero_ranks(experts));
    return std::pair(layout.zero_ranks(experts), layout.zero_rank(experts));
  };

  EXPECT_EQ(slices(4, 3, 1), std::pair(4, 3));
  EXPECT_EQ(slices(4, 3, 2), std::pair(2, 1));
  EXPECT_EQ(slices(4, 2, 2), std::pair(2, 1));
  EXPECT_EQ(slices(4, 3, 4), std::pair(1, 0));
  EXPECT_EQ(slices(2, 1, 4), std::pair(1, 0));
}

TEST(ParamLayout, RefusesExpertsThatAreNotSplitAlongTheirFirstAxis) {
  ParamLayout layout({}, false);

  for (const ParamSpec& spec :
       {ParamSpec{.name = "w", .shape = {4, 3}, .shard_axis = 1, .expert = true},
        ParamSpec{.name = "w", .shape = {4, 3}, .expert = true},
        ParamSpec{.name = "w", .shape = {4, 3}, .shard_axis = 0, .expert = true, .tie = "t"}})
    test::expect_error(
        ExitCode::internal, [&] { layout.declare(spec); }, "w", "axis 0");
}

TEST(ParamLayout, FindsTheWeightsOfALayerInOneRange) {
  const ParamLayout layout = laid_out({.stage = 2, .ranks = 3, .rank = 0}, 1);

  std::int64_t all = 0;
  for (int unit = 0; unit < layout.unit_count(); ++unit) {
    const auto range = layout.unit_weights(unit);
    all += range.count;
    for (const ParamId id : layout.order()) {
      const bool inside =
          layout.offset(id) >= range.first && layout.offset(id) < range.first + range.count;
      EXPECT_EQ(inside, layout.unit_of(id) == unit && layout.spec(id).kind == ParamKind::weight)
          << layout.spec(id).name;
    }
  }
  EXPECT_EQ(all, layout.weight_elements());
}

TEST(ParamLayout, TreatsTheSameNameDeclaredTwiceAsOneParameter) {
  ParamLayout layout({}, false);
  const ParamId first = layout.declare({.name = "table", .shape = {8, 4}});
  const ParamId second = layout.declare({.name = "table", .shape = {8, 4}});

  EXPECT_EQ(first.index, second.index);
  EXPECT_EQ(layout.specs().size(), 1U);
  test::expect_error(
      ExitCode::internal,
      [&] {
        layout.declare({.name = "table", .shape = {4, 8}});
      },
      "table", "(8, 4)", "(4, 8)");
}

TEST(ParamLayout, RefusesDeclarationsOnceItIsLaidOut) {
  ParamLayout layout = laid_out({});

  test::expect_error(
      ExitCode::internal, [&] { layout.declare({.name = "late", .shape = {1}}); }, "late");
  EXPECT_THROW(layout.lay_out({}, 1), Error);
}

}  // namespace
}  // namespace trireme
