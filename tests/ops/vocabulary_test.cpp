// SPDX-License-Identifier: Apache-2.0
// Embedding and loss over a vocabulary that is split into blocks, against the ops that see all of
// it.
#include <algorithm>
#include <limits>

#include "runtime/ops/loss/cross_entropy_block.h"
#include "runtime/ops/loss/embedding.h"
#include "runtime/ops/loss/target_rank.h"
#include "runtime/ops/update/block_sum.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class VocabularyBlocks : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, VocabularyBlocks,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

Tensor rows_of(const GuardedTensor& table, std::int64_t first, std::int64_t rows) {
  const std::int64_t columns = table.view().shape[1];
  return table.view().range(first * columns, rows * columns).reshaped({rows, columns});
}

TEST_P(VocabularyBlocks, EmbeddingsAddUpToTheWhole) {
  const GuardedTensor table = random_tensor(GetParam(), {6, 19}, 1);
  const GuardedTensor positions = random_tensor(GetParam(), {4, 19}, 2);
  const GuardedTensor tokens(DType::i32, {2, 3}, {5, 0, 5, 1, 3, 2});
  const GuardedTensor whole(GetParam(), {2, 3, 19}), y(GetParam(), {2, 3, 19});
  const GuardedTensor parts(GetParam(), {3, 2, 3, 19});
  ops::embedding_forward(stream(), whole, tokens, table, positions);

  for (std::int64_t block = 0; block < 3; ++block) {
    const Tensor part = parts.view().range(block * 114, 114).reshaped({2, 3, 19});
    ops::embedding_partial_forward(stream(), part, tokens, rows_of(table, 2 * block, 2), 2 * block);
  }
  ops::sum_blocks(stream(), y, parts);
  ops::add_positions(stream(), y, y, positions);

  EXPECT_EQ(y.raw(), whole.raw());
}

TEST_P(VocabularyBlocks, PositionsCountFromTheBeginOfADocument) {
  const GuardedTensor table = random_tensor(GetParam(), {6, 19}, 1);
  const GuardedTensor positions = random_tensor(GetParam(), {5, 19}, 2);
  const GuardedTensor tokens(DType::i32, {2, 5}, {5, 0, 5, 1, 3, 2, 2, 4, 0, 1});
  const GuardedTensor starts(DType::i32, {2, 5}, {0, 0, 2, 2, 2, 0, 1, 2, 2, 2});
  const Values own = {0, 1, 0, 1, 2, 0, 0, 0, 1, 2};
  const GuardedTensor bare(GetParam(), {2, 5, 19}), y(GetParam(), {2, 5, 19});
  const GuardedTensor tail(GetParam(), {1, 3, 19});
  const GuardedTensor d_positions = random_tensor(DType::f32, {5, 19}, 3);
  const Values before = d_positions.get();

  ops::embedding_forward(stream(), y, tokens, table, positions, starts);
  ops::embedding_forward(stream(), bare, tokens, table);
  ops::embedding_backward(stream(), {}, d_positions, y, tokens, starts);
  // The last three positions of the second sequence, as a rank of sequence parallelism has them.
  const auto last = [](const GuardedTensor& x) { return x.view().range(7 * 19, 57); };
  ops::add_positions(stream(), tail, last(bare).reshaped({1, 3, 19}), positions,
                     starts.view().range(7, 3).reshaped({1, 3}), {.rows = 3, .first = 2});

  const Values got = y.get(), found = bare.get(), rows = positions.get(), part = tail.get();
  Values gradient = before;
  for (std::size_t row = 0; row < own.size(); ++row) {
    for (std::size_t i = 0; i < 19; ++i) {
      const std::size_t at = static_cast<std::size_t>(own[row]) * 19 + i;
      EXPECT_NEAR(got[row * 19 + i], found[row * 19 + i] + rows[at], 2 * rounding_of(GetParam()));
      gradient[at] += got[row * 19 + i];
    }
  }
  expect_close(d_positions.get(), gradient, 1e-6, 1e-6);
  EXPECT_EQ(part, Values(got.begin() + 7 * 19, got.end()));
}

TEST_P(VocabularyBlocks, EmbeddingsHoldNoNegativeZero) {
  const GuardedTensor table(GetParam(), {2, 3}, {-0.0, 0.0, -1.0, -0.0, -2.0, 0.0});
  const GuardedTensor tokens(DType::i32, {1, 3}, {3, 4, 9}), y(GetParam(), {1, 3, 3});

  ops::embedding_partial_forward(stream(), y, tokens, table, 3);

  const Values result = y.get();
  EXPECT_EQ(result, (Values{0.0, 0.0, -1.0, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0}));
  for (const double value : result)
    EXPECT_EQ(std::signbit(value), value < 0.0);
}

TEST_P(VocabularyBlocks, EmbeddingGradientsAreTheRowsOfTheWhole) {
  const GuardedTensor dy = random_tensor(GetParam(), {3, 4, 19}, 1);
  const GuardedTensor tokens(DType::i32, {3, 4}, {5, 0, 5, 1, 3, 2, 5, 5, 0, 1, 1, 5});
  const auto make_tokens = [] { return random_tensor(DType::f32, {6, 19}, 2); };
  const auto make_positions = [] { return random_tensor(DType::f32, {5, 19}, 3); };
  const GuardedTensor whole = make_tokens(), positions = make_positions();
  ops::embedding_backward(stream(), whole, positions, dy, tokens);

  const GuardedTensor blocks = make_tokens(), alone = make_tokens();
  const GuardedTensor positions_alone = make_positions(), positions_apart = make_positions();
  for (const std::int64_t first : {0, 3})
    ops::embedding_partial_backward(stream(), rows_of(blocks, first, 3), dy, tokens, first);
  ops::embedding_backward(stream(), alone, {}, dy, tokens);
  ops::embedding_backward(stream(), {}, positions_alone, dy, tokens);
  ops::add_positions_backward(stream(), positions_apart, dy);

  EXPECT_NE(whole.raw(), make_tokens().raw());
  EXPECT_EQ(blocks.raw(), whole.raw());
  EXPECT_EQ(alone.raw(), whole.raw());
  EXPECT_EQ(positions_alone.raw(), positions.raw());
  EXPECT_EQ(positions_apart.raw(), positions.raw());
}

TEST_P(VocabularyBlocks, EmbeddingsRefuseOperandsThatDoNotFit) {
  const GuardedTensor y(GetParam(), {2, 3, 7}), table(GetParam(), {5, 7});
  const GuardedTensor tokens(DType::i32, {2, 3}), narrow(GetParam(), {5, 6});
  const GuardedTensor gradient(DType::f32, {5, 6}), few(GetParam(), {2, 7});

  expect_error([&] { ops::embedding_partial_forward(stream(), y, tokens, narrow, 0); },
               {"embedding_partial_forward", "(5, 6)", "(5, 7)"});
  expect_error([&] { ops::embedding_partial_forward(stream(), y, tokens, table, -1); }, {"-1"});
  expect_error([&] { ops::embedding_partial_backward(stream(), gradient, y, tokens, 0); },
               {"(5, 6)", "(5, 7)"});
  expect_error([&] { ops::add_positions(stream(), y, y, few); }, {"(2, 7)", "(2, 3, 7)"});
  expect_error([&] { ops::embedding_backward(stream(), {}, {}, y, tokens); }, {"neither"});
}

// A loss over blocks of equal width, as computed by several ranks with some blocks each.
struct SplitLoss {
  std::int64_t rows, width, blocks;
  std::vector<GuardedTensor> logits;  // (rows, width) each
  GuardedTensor losses{DType::f32, {rows}}, correct{DType::f32, {rows}};

  SplitLoss(DType dtype, const Values& whole, std::int64_t row_count, std::int64_t block_count)
      : rows(row_count),
        width(static_cast<std::int64_t>(whole.size()) / row_count / block_count),
        blocks(block_count) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      Values part;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto begin = whole.begin() + (row * blocks + block) * width;
        part.insert(part.end(), begin, begin + width);
      }
      logits.emplace_back(dtype, Shape{rows, width}, part);
    }
  }

  // Each of `ranks` sums its blocks, then the ranks' sums are added.
  void run(const Tensor& targets, const ops::CrossEntropyOptions& options, std::int64_t ranks) {
    const GuardedTensor maxima(DType::f32, {rows});
    for (std::int64_t block = 0; block < blocks; ++block) {
      ops::cross_entropy_block_max(stream(), maxima, at(block), block * width, options.classes,
                                   block > 0);
    }
    const std::int64_t each = blocks / ranks, count = rows * ops::CrossEntropySums::count;
    const Shape shape{rows, ops::CrossEntropySums::count};
    const GuardedTensor total(DType::f64, shape), by_rank(DType::f64, {ranks, count});
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const GuardedTensor own(DType::f64, {each, count});
      for (std::int64_t i = 0; i < each; ++i) {
        const std::int64_t block = rank * each + i;
        ops::cross_entropy_block_sums(stream(), own.view().range(i * count, count).reshaped(shape),
                                      maxima, at(block), targets, block * width, options);
      }
      ops::sum_blocks(stream(), by_rank.view().range(rank * count, count), own);
    }
    ops::sum_blocks(stream(), total.view().reshaped({count}), by_rank);
    for (std::int64_t block = 0; block < blocks; ++block) {
      ops::cross_entropy_block_finish(stream(), block == 0 ? losses.view() : Tensor{},
                                      block == blocks - 1 ? correct.view() : Tensor{}, at(block),
                                      maxima, total, targets, block * width, options);
    }
  }
  [[nodiscard]] const GuardedTensor& at(std::int64_t block) const {
    return logits[static_cast<std::size_t>(block)];
  }
  [[nodiscard]] Values whole_logits() const {
    Values result;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (const GuardedTensor& block : logits) {
        const Values part = block.get();
        result.insert(result.end(), part.begin() + row * width, part.begin() + (row + 1) * width);
      }
    }
    return result;
  }
};

TEST_P(VocabularyBlocks, LossesHitsAndGradientsAreThoseOfTheFusedLoss) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const std::int64_t classes :
         {48, 45, 33, 3}) {  // of 48 columns, so whole blocks of padding
      constexpr std::int64_t rows = 5, columns = 48;
      const Values before = random_values(rows * columns, 1, GetParam(), -4.0, 4.0);
      const GuardedTensor targets(
          DType::i32, {rows},
          {0.0, static_cast<double>(classes - 1), -1.0, 1.0, static_cast<double>(classes / 2)});
      ops::CrossEntropyOptions options;
      options.classes = classes;
      options.label_smoothing = static_cast<float>(smoothing);
      options.z_loss = static_cast<float>(smoothing / 2);
      options.gradient_scale = 0.25F;
      const GuardedTensor scale(DType::f32, {1}, {smoothing == 0.0 ? 1.0 : 4.0});
      options.loss_scale = scale.view().as<float>();
      const GuardedTensor fused(GetParam(), {rows, columns}, before);
      const GuardedTensor losses(DType::f32, {rows}), correct(DType::f32, {rows});
      ops::cross_entropy(stream(), losses, correct, fused, targets, options);

      for (const std::int64_t blocks : {1, 2, 4}) {
        SplitLoss split(GetParam(), before, rows, blocks);
        split.run(targets, options, 1);

        expect_close(split.losses.get(), losses.get(), 1e-6, 1e-7);
        EXPECT_EQ(split.correct.get(), correct.get());
        expect_close(split.whole_logits(), fused.get(), 2 * rounding_of(GetParam()), 1e-7);
      }
    }
  }
}

TEST_P(VocabularyBlocks, LossesHaveTheSameBitsForAnyOwnersOfTheBlocks) {
  constexpr std::int64_t rows = 3, columns = 4 * 3000;
  const Values before = random_values(rows * columns, 2, GetParam(), -8.0, 8.0);
  const GuardedTensor targets(DType::i32, {rows}, {11000.0, 3000.0, 77.0});
  ops::CrossEntropyOptions options;
  options.classes = columns - 5;
  options.label_smoothing = 0.1F;
  std::vector<std::vector<unsigned char>> results;
  for (const std::int64_t ranks : {1, 2, 4}) {
    SplitLoss split(GetParam(), before, rows, 4);

    split.run(targets, options, ranks);

    auto& result = results.emplace_back(split.losses.raw());
    for (const GuardedTensor& block : split.logits) {
      const auto bytes = block.raw();
      result.insert(result.end(), bytes.begin(), bytes.end());
    }
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST_P(VocabularyBlocks, OnlyTheFirstOfEqualMaximaIsAHit) {
  const Values row{1.0, 3.0, 0.0, 3.0, 3.0, 2.0};
  Values logits;
  for (std::size_t i = 0; i < row.size(); ++i)
    logits.insert(logits.end(), row.begin(), row.end());
  const GuardedTensor targets(DType::i32, {6}, {0.0, 1.0, 2.0, 3.0, 4.0, 5.0});
  ops::CrossEntropyOptions options;
  options.classes = 6;
  for (const std::int64_t blocks : {1, 2, 3, 6}) {
    SplitLoss split(GetParam(), logits, 6, blocks);

    split.run(targets, options, 1);

    EXPECT_EQ(split.correct.get(), (Values{0.0, 1.0, 0.0, 0.0, 0.0, 0.0})) << blocks << " blocks";
  }
}

TEST_P(VocabularyBlocks, LossesLeaveTheLogitsAloneInEvaluation) {
  const Values before = random_values(24, 3, GetParam());
  const GuardedTensor targets(DType::i32, {2}, {11.0, -1.0});
  ops::CrossEntropyOptions options;
  options.classes = 12;
  options.write_gradient = false;
  SplitLoss split(GetParam(), before, 2, 3);

  split.run(targets, options, 3);

  EXPECT_EQ(split.whole_logits(), before);
  EXPECT_GT(split.losses.get()[0], 0.0);
  EXPECT_EQ(split.losses.get()[1], 0.0);
}

TEST(VocabularyLoss, ShowsANaNInAnyBlock) {
  for (const std::size_t at : {0U, 5U}) {
    Values logits(6, 1.0);
    logits[at] = std::nan("");
    const GuardedTensor targets(DType::i32, {1}, {3.0});
    ops::CrossEntropyOptions options;
    options.classes = 6;
    SplitLoss split(DType::f32, logits, 1, 3);

    split.run(targets, options, 1);

    EXPECT_TRUE(std::isnan(split.losses.get()[0]));
  }
}

TEST(VocabularyLoss, HasNoMaximumInABlockOfPaddingAndNoNegativeZero) {
  const GuardedTensor logits(DType::f32, {2, 2}, {5.0, 7.0, -0.0, -0.0}), maxima(DType::f32, {2});

  ops::cross_entropy_block_max(stream(), maxima, logits, 10, 10);
  EXPECT_EQ(maxima.get(), Values(2, -std::numeric_limits<double>::infinity()));
  ops::cross_entropy_block_max(stream(), maxima, logits, 9, 10);
  EXPECT_EQ(maxima.get(), (Values{5.0, 0.0}));
  EXPECT_FALSE(std::signbit(maxima.get()[1]));
  ops::cross_entropy_block_max(stream(), maxima, logits, 8, 10, true);
  EXPECT_EQ(maxima.get(), (Values{7.0, 0.0}));
}

TEST(VocabularyLoss, RefusesOperandsThatDoNotFit) {
  const GuardedTensor logits(DType::f32, {3, 4}), maxima(DType::f32, {3}), few(DType::f32, {2});
  const GuardedTensor sums(DType::f64, {3, 4}), narrow(DType::f64, {3, 3});
  const GuardedTensor targets(DType::i32, {3}, {0.0, 7.0, 1.0});
  ops::CrossEntropyOptions options;
  options.classes = 8;
  const auto run = [&](const Tensor& out) {
    ops::cross_entropy_block_sums(stream(), out, maxima, logits, targets, 0, options);
  };

  expect_error([&] { ops::cross_entropy_block_max(stream(), few, logits, 0, 8); },
               {"maxima", "(2)", "3"});
  expect_error([&] { ops::cross_entropy_block_max(stream(), maxima, logits, -4, 8); }, {"-4"});
  expect_error([&] { run(narrow); }, {"sums", "(3, 3)", "(3, 4)"});
  expect_error(
      [&] {
        ops::cross_entropy_block_finish(stream(), maxima, {}, logits, maxima, sums, targets, 0,
                                        options);
      },
      {"losses", "shares memory"});
}

TEST(VocabularyLoss, RefusesATargetThatIsNoClass) {
  const GuardedTensor targets(DType::i32, {2}, {1.0, 9.0});
  ops::CrossEntropyOptions options;
  options.classes = 8;
  SplitLoss split(DType::f32, Values(16, 1.0), 2, 2);
  const auto run = [&] { split.run(targets, options, 1); };

  if (stream().device().type() == DeviceType::cpu) {
    expect_error(run, {"target 9", "8 classes"});
    return;
  }
  run();  // a GPU cannot raise an error: the loss shows it
  EXPECT_FALSE(std::isnan(split.losses.get()[0]));
  EXPECT_TRUE(std::isnan(split.losses.get()[1]));
}

// Logits with ties, padded classes and rows without a target, whole and in blocks.
TEST_P(VocabularyBlocks, RanksOfTargetsAreThoseOfAStableSort) {
  constexpr std::int64_t rows = 9, classes = 37, padded = 40;
  Values values(rows * padded);
  std::vector<double> labels(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    labels[static_cast<std::size_t>(row)] =
        row == 4 ? -1.0 : static_cast<double>(row * 11 % classes);
    for (std::int64_t i = 0; i < padded; ++i)
      values[static_cast<std::size_t>(row * padded + i)] =
          i >= classes ? 1000.0 : static_cast<double>((i * i + 3 * row) % 7) - 3.0;
  }
  Values expected(rows, 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    if (labels[row] < 0) expected[row] = std::numeric_limits<double>::infinity();
    const double* const logit = values.data() + row * padded;
    const auto target = static_cast<std::int64_t>(labels[row]);
    for (std::int64_t i = 0; target >= 0 && i < classes; ++i)
      expected[row] += logit[i] > logit[target] || (logit[i] == logit[target] && i < target);
  }
  const GuardedTensor targets(DType::i32, {rows}, labels);

  for (const std::int64_t blocks : {1, 2, 8}) {
    const std::int64_t width = padded / blocks;
    const GuardedTensor own(DType::f32, {rows}), ranks(DType::f32, {rows});
    std::vector<GuardedTensor> parts;
    for (std::int64_t b = 0; b < blocks; ++b) {
      Values part;
      for (std::int64_t row = 0; row < rows; ++row)
        part.insert(part.end(), values.begin() + row * padded + b * width,
                    values.begin() + row * padded + (b + 1) * width);
      parts.emplace_back(GetParam(), Shape{rows, width}, part);
    }
    const auto each = [&](auto&& op) {
      for (std::int64_t b = 0; b < blocks; ++b)
        op(parts[static_cast<std::size_t>(b)].view(), ops::ClassBlock{classes, b * width}, b > 0);
    };
    each([&](const Tensor& logits, const ops::ClassBlock& block, bool accumulate) {
      ops::target_logits(stream(), own, logits, targets, block, accumulate);
    });
    each([&](const Tensor& logits, const ops::ClassBlock& block, bool accumulate) {
      ops::target_ranks(stream(), ranks, own, logits, targets, block, accumulate);
    });
    const GuardedTensor total(DType::f64, {1}, {2.0});
    ops::count_below(stream(), total, ranks, 5.0F);

    EXPECT_EQ(ranks.get(), expected) << blocks << " blocks";
    EXPECT_EQ(total.get()[0], 2.0 + static_cast<double>(std::ranges::count_if(
                                        expected, [](double rank) { return rank < 5; })));
  }
}

}  // namespace
}  // namespace trireme
