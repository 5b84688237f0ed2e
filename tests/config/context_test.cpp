// SPDX-License-Identifier: Apache-2.0
// Rules of parallel.context, for a model of 24 positions whose samples can be cut in time.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <span>

#include "models/registry.h"
#include "runtime/config/batch_slices.h"
#include "runtime/config/key_table.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Long {
  std::int64_t context = 24, experts = 0, heads = 12, kv_heads = 2;
  friend bool operator==(const Long&, const Long&) = default;
};

config::ModelFamily family() {
  using config::IntegerRange;
  return {.name = "long",
          .splits_tensor = true,
          .fields =
              [] {
                return std::vector{
                    TRIREME_MODEL_FIELD(Long, context, (IntegerRange{0, 9999}), "positions"),
                    TRIREME_MODEL_FIELD(Long, experts, (IntegerRange{0, 64}), "of each layer"),
                    TRIREME_MODEL_FIELD(Long, heads, (IntegerRange{0, 64}), "heads"),
                    TRIREME_MODEL_FIELD(Long, kv_heads, (IntegerRange{0, 64}), "key heads")};
              },
          .check = [](const config::Subject&) {},
          .limits =
              [](const Config& config) {
                const Long& model = config.model.as<Long>();
                ModelLimits limits;
                limits.layers = 4;
                limits.tensor = {{48, "model.heads"}};
                limits.experts = {model.experts, "model.experts"};
                limits.rows = {model.context, "model.context"};
                limits.positions = {model.context, "model.context"};
                limits.attention_heads = model.heads;
                limits.attention_kv_heads = model.kv_heads;
                return limits;
              },
          .targets =
              [](const ModelConfig&) {
                return TargetSpec{TargetKind::label, Shape{}, 2};
              }};
}

class ContextRules : public testing::Test {
 protected:
  [[nodiscard]] Config resolve(std::vector<std::string> overrides, int ranks,
                               Purpose purpose = Purpose::train,
                               const std::string& layout = "fast") {
    overrides.insert(overrides.begin(), "reproducibility=" + layout);
    Provenance where;
    const Config config = parse_config(
        keys_, "data: {path: x}\nmodel: {family: long}\ntrain: {global_batch: 8, micro_batch: 1}\n",
        "a.yaml", overrides, &where);
    return resolve_config(keys_, config, {.ranks = ranks}, &where, purpose);
  }
  [[nodiscard]] std::string refused(const std::vector<std::string>& overrides, int ranks,
                                    const std::string& layout = "fast",
                                    Purpose purpose = Purpose::train) {
    return config_error([&] { (void)resolve(overrides, ranks, purpose, layout); });
  }
  [[nodiscard]] bool accepts(const std::vector<std::string>& overrides, int ranks,
                             const std::string& layout) {
    try {
      (void)resolve(overrides, ranks, Purpose::train, layout);
    } catch (const Error& error) {
      return error.code() != ExitCode::config;
    }
    return true;
  }
  void accept(const std::vector<std::string>& overrides, int ranks,
              const std::string& layout = "fast") {
    EXPECT_NO_THROW((void)resolve(overrides, ranks, Purpose::train, layout))
        << testing::PrintToString(overrides);
  }

 private:
  config::KeyTable keys_{{family()}};
};

TEST_F(ContextRules, RanksAreTheProductOfAllAxes) {
  const ParallelConfig parallel =
      resolve({"parallel.context=3", "parallel.tensor=2", "parallel.pipeline=2"}, 24).parallel;

  EXPECT_EQ(parallel.data, 2);
  EXPECT_EQ(parallel.data_ranks(), 6);
  EXPECT_EQ(parallel.ranks(), 24);
  EXPECT_EQ(parallel.context_blocks, 3);
  EXPECT_THAT(refused({"parallel.context=4", "parallel.context_blocks=4", "model.context=16"}, 6),
              HasSubstr("tensor * context * pipeline = 4 does not divide"));
  EXPECT_THAT(refused({"parallel.context=2", "parallel.data=3"}, 4),
              AllOf(HasSubstr("3 data-parallel ranks times 2"), HasSubstr("use auto or 2")));
}

TEST_F(ContextRules, ChunksDivideTheSequence) {
  accept({"parallel.context=12"}, 12);
  accept({"parallel.context_blocks=6"}, 1);
  EXPECT_THAT(refused({"parallel.context=8"}, 8),
              AllOf(HasSubstr("--set parallel.context"), HasSubstr("8 blocks"),
                    HasSubstr("model.context = 24"), HasSubstr("use 3, 4, 6 or 12"),
                    HasSubstr("or model.context 16 or 32")));
  EXPECT_THAT(refused({"parallel.context=2", "parallel.context_blocks=8"}, 2),
              AllOf(HasSubstr("--set parallel.context_blocks"), HasSubstr("use 2, 4, 6 or 12")));
  EXPECT_THAT(refused({"parallel.context=2", "model.context=25"}, 2),
              HasSubstr("use model.context 24 or 28"));
  EXPECT_THAT(refused({"parallel.context=4", "parallel.context_blocks=6"}, 4),
              AllOf(HasSubstr("6 is not a multiple of parallel.context = 4"),
                    HasSubstr("use auto or 8, or context 1, 2, 3 or 6")));
  EXPECT_THAT(refused({"parallel.context=2", "parallel.context_blocks=1"}, 2),
              HasSubstr("1 is not a multiple of parallel.context = 2; use auto or 2"));
}

TEST_F(ContextRules, OnlyModelsOfSequencesAreCut) {
  EXPECT_THAT(refused({"parallel.context=2", "model.context=0"}, 2),
              AllOf(HasSubstr("2 with model.family: long"), HasSubstr("cannot be cut in time")));
  EXPECT_THAT(refusal(resnet, {"parallel.context=2"}, ranks(2)),
              HasSubstr("resnet, whose samples cannot be cut in time; use 1"));
  EXPECT_THAT(refused({"parallel.context_mode=heads"}, 1), HasSubstr("has no effect"));
}

TEST_F(ContextRules, RowsOfABlockAreSharedByTensorRanks) {
  accept({"parallel.context=6", "parallel.tensor=4"}, 24);
  EXPECT_THAT(refused({"parallel.context=4", "parallel.tensor=4"}, 16),
              HasSubstr("4 does not divide train.micro_batch * model.context / 4 blocks"));
}

TEST_F(ContextRules, BlocksShareHeads) {
  const std::string heads = "parallel.context_mode=heads";
  accept({heads, "parallel.context=2"}, 2);
  accept({heads, "parallel.context=4"}, 4);  // two key heads, each twice
  accept({heads, "parallel.context=6", "parallel.tensor=2"}, 12);
  EXPECT_THAT(refused({heads, "parallel.context=3"}, 3),
              AllOf(HasSubstr("3 blocks"), HasSubstr("12 attention heads and 2 key heads"),
                    HasSubstr("use gather, or context_blocks 6 or 12")));
  EXPECT_THAT(refused({heads, "parallel.context=4", "parallel.tensor=2"}, 8),
              HasSubstr("6 attention heads and 1 key heads of each of 2 tensor blocks"));
}

TEST_F(ContextRules, EqualBitsNeedABlockCountThatStays) {
  EXPECT_THAT(refused({"parallel.context=2"}, 2, "layout"),
              AllOf(HasSubstr("auto with reproducibility: layout"), HasSubstr("parallel.context")));
  accept({"parallel.context_blocks=4"}, 1, "layout");
  accept({"parallel.context_blocks=6"}, 3, "layout");
}

// One tree: the blocks of a micro-batch, then micro-batches.
TEST_F(ContextRules, EqualBitsNeedSumsOfBlocksBeforeThoseOfMicroBatches) {
  const std::vector<std::string> two = {"parallel.context=2", "parallel.context_blocks=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), two.begin(), two.end());
    return more;
  };
  accept(with({"parallel.zero=2"}), 8, "layout");
  accept(with({"parallel.zero=3", "parallel.zero_group=4"}), 8, "layout");
  accept(with({}), 16, "layout");
  accept(with({"parallel.zero=1"}), 16, "layout");
  accept(with({}), 8, "run");
  EXPECT_THAT(refused(with({}), 8, "layout"),
              AllOf(HasSubstr("parallel.zero: 0 with"), HasSubstr("use 2 or 3"),
                    HasSubstr("train.global_batch 4")));
  EXPECT_THAT(refused({"parallel.context=4", "parallel.context_blocks=4", "parallel.zero=2",
                       "parallel.zero_group=2"},
                      8, "layout"),
              AllOf(HasSubstr("parallel.zero_group"), HasSubstr("use all or a multiple of 4")));
}

TEST_F(ContextRules, EqualBitsNeedRanksThatAreSubtrees) {
  const std::vector<std::string> three = {"parallel.context=3", "parallel.context_blocks=6",
                                          "parallel.zero=2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), three.begin(), three.end());
    return more;
  };
  accept(with({}), 3, "layout");
  accept(with({"parallel.zero_group=3"}), 6, "layout");
  EXPECT_THAT(refused(with({}), 6, "layout"),
              AllOf(HasSubstr("3 with"), HasSubstr("zero_group 3"), HasSubstr("parallel.data 1")));
  EXPECT_THAT(refused({"parallel.context=2", "parallel.context_blocks=12", "parallel.zero=2",
                       "model.context=48"},
                      2, "layout"),
              HasSubstr("6 blocks on each rank do not fit one tree"));
}

// The sum of texts as a tree whose left half is the largest power of two below their number.
std::string tree_of(std::span<const std::string> leaves) {
  if (leaves.size() == 1) return leaves.front();
  const std::size_t left = std::bit_floor(leaves.size() - 1);
  return "(" + tree_of(leaves.first(left)) + tree_of(leaves.subspan(left)) + ")";
}

template <typename Leaf>
std::string tree_of(std::int64_t count, const Leaf& leaf) {
  std::vector<std::string> leaves;
  for (std::int64_t i = 0; i < count; ++i)
    leaves.push_back(leaf(i));
  return tree_of(leaves);
}

std::string tree_of_blocks(std::int64_t batch, std::int64_t first, std::int64_t count) {
  return tree_of(count, [&](std::int64_t i) { return fmt::format("[{}.{}]", batch, first + i); });
}

// How a layout adds: blocks on a rank, then its micro-batches and ranks in the order of ZeRO.
std::string sum_of(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t local = parallel.blocks() / parallel.context, shard = parallel.shard();
  const BatchSlices slices = batch_slices(config);
  const std::int64_t batches = slices.largest();
  const auto of_rank = [&](std::int64_t rank, std::int64_t m) {
    const std::int64_t batch = slices.number(rank / parallel.context, m, batches);
    return tree_of_blocks(batch, rank % parallel.context * local, local);
  };
  return tree_of(parallel.data_ranks() / shard, [&](std::int64_t group) {
    if (parallel.zero >= 2)
      return tree_of(batches, [&](std::int64_t m) {
        return tree_of(shard, [&](std::int64_t i) { return of_rank(group * shard + i, m); });
      });
    return tree_of(shard, [&](std::int64_t i) {
      return tree_of(batches, [&](std::int64_t m) { return of_rank(group * shard + i, m); });
    });
  });
}

TEST_F(ContextRules, AcceptExactlyTheLayoutsWhoseSumsAreOneTree) {
  int accepted = 0, refused_ones = 0;
  const auto check = [&](std::int64_t data, std::int64_t context, std::int64_t blocks,
                         std::int64_t batches, int zero, std::int64_t group) {
    const auto ranks = static_cast<int>(data * context);
    std::vector<std::string> set = {fmt::format("parallel.context={}", context),
                                    fmt::format("parallel.context_blocks={}", blocks),
                                    fmt::format("model.context={}", 2 * blocks),
                                    fmt::format("train.global_batch={}", batches),
                                    fmt::format("parallel.zero={}", zero)};
    if (group < ranks && zero > 0) set.push_back(fmt::format("parallel.zero_group={}", group));
    const Config summed = resolve(set, ranks);  // the other modes allow all of them
    const bool one_tree = sum_of(summed) == tree_of(batches, [&](std::int64_t batch) {
                            return tree_of_blocks(batch, 0, blocks);
                          });
    EXPECT_EQ(accepts(set, ranks, "layout"), one_tree) << testing::PrintToString(set);
    ++(one_tree ? accepted : refused_ones);
  };
  for (const std::int64_t data : {1, 2, 3, 4})
    for (const std::int64_t context : {2, 3, 4})
      for (const std::int64_t local : {1, 2, 3})
        for (const std::int64_t turns : {1, 2, 3})
          for (const int zero : {0, 1, 2})
            for (std::int64_t group = 2; group <= data * context; ++group)
              if (data * context % group == 0)
                check(data, context, local * context, data * turns, zero, group);

  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused_ones, 100);
}

TEST_F(ContextRules, ExpertsAreSharedByWholeSequencesOrPartsOfOne) {
  const std::string experts = "model.experts=24", context = "parallel.context=4";
  accept({experts, context, "model.context=16", "parallel.expert=2"}, 8);
  accept({experts, context, "model.context=16", "parallel.expert=8"}, 8);
  EXPECT_THAT(refused({experts, context, "model.context=16", "parallel.expert=6"}, 12),
              AllOf(HasSubstr("sequences by 4"), HasSubstr("neither divides")));
  EXPECT_THAT(
      refused({experts, "parallel.context=2", "parallel.context_blocks=4", "parallel.zero=2",
               "parallel.expert=2"},
              4, "layout"),
      AllOf(HasSubstr("2 blocks of a sequence on each rank"), HasSubstr("context_blocks 2")));
}

TEST_F(ContextRules, EvaluationKeepsTheRanksOfASequenceAndGenerationDoesSoIfAsked) {
  const auto at = [&](int ranks, Purpose purpose, const std::string& layout) {
    Provenance where;
    const config::KeyTable keys{{family()}};
    const Config config = parse_config(keys,
                                       "data: {path: x, validation_path: y}\nmodel: {family: "
                                       "long}\nparallel: {context: 2, context_blocks: 4}\n"
                                       "reproducibility: " +
                                           layout + "\n",
                                       "a.yaml", {}, &where);
    return resolve_config(keys, config, {.ranks = ranks}, &where, purpose).parallel;
  };

  EXPECT_EQ(at(4, Purpose::evaluate, "fast").context, 2);
  EXPECT_EQ(at(4, Purpose::evaluate, "fast").data, 2);
  EXPECT_EQ(at(3, Purpose::evaluate, "fast").context, 1);
  EXPECT_EQ(at(3, Purpose::evaluate, "fast").blocks(), 1);
  EXPECT_EQ(at(3, Purpose::evaluate, "layout").blocks(), 4);
  EXPECT_EQ(at(4, Purpose::generate, "layout").context, 1);
  EXPECT_EQ(at(4, Purpose::generate, "layout").blocks(), 1);
  EXPECT_EQ(resolve({"parallel.context=2"}, 2, Purpose::generate).parallel.context, 2);
}

TEST_F(ContextRules, SlicesAreThoseOfRanksThatReadOtherSamples) {
  const Config all = resolve({"parallel.context=2", "parallel.zero=2"}, 8);
  EXPECT_EQ(batch_slices(all).ranks(), 4);
  EXPECT_EQ(batch_slices(all).turns(), 4);
  const Config groups =
      resolve({"parallel.context=2", "parallel.zero=2", "parallel.zero_group=4"}, 8);
  EXPECT_EQ(batch_slices(groups).turns(), 2);
  const Config parts =
      resolve({"parallel.context=4", "parallel.zero=2", "parallel.zero_group=2"}, 8);
  EXPECT_EQ(batch_slices(parts).turns(), 1);
}

}  // namespace
}  // namespace trireme
