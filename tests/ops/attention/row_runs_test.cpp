// SPDX-License-Identifier: Apache-2.0
// Positions of the rows of blocks that hold two runs of a sequence, against whole sequences.
#include "runtime/ops/common/row_runs.h"

#include "runtime/ops/elementwise/rope.h"
#include "runtime/ops/loss/embedding.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class RowsInRuns : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, RowsInRuns, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

constexpr std::int64_t batch = 2;

// Blocks of chunks b and 2 K - 1 - b of 2 K; with the last block first, later tables are shorter.
struct Cut {
  std::int64_t blocks, chunk;

  [[nodiscard]] std::int64_t length() const { return 2 * blocks * chunk; }
  [[nodiscard]] std::int64_t rows() const { return 2 * chunk; }
  [[nodiscard]] ops::RowRuns runs(std::int64_t block) const {
    return {chunk, block * chunk, (2 * blocks - 1 - block) * chunk};
  }
  // The block's rows of (batch, T, width).
  [[nodiscard]] Values of(const Values& values, std::int64_t width, std::int64_t block) const {
    Values taken;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t row = 0; row < rows(); ++row) {
        const auto from = values.begin() + (b * length() + runs(block).position(row)) * width;
        taken.insert(taken.end(), from, from + width);
      }
    }
    return taken;
  }
};
const Cut cuts[] = {{1, 7}, {2, 5}, {3, 4}, {4, 1}};

// Documents of one token, across chunks and to the end; others in the second sample.
Values starts_of(std::int64_t length) {
  Values values;
  for (const std::vector<std::int64_t>& begins :
       {std::vector<std::int64_t>{0, 1, 2, 6}, std::vector<std::int64_t>{0, 5}}) {
    for (std::int64_t t = 0; t < length; ++t)
      values.push_back(static_cast<double>(*std::prev(std::ranges::upper_bound(begins, t))));
  }
  return values;
}

// Whether positions count from the begins of documents.
constexpr bool both[] = {false, true};

TEST_P(RowsInRuns, RotateAsInWholeSequences) {
  constexpr std::int64_t width = 4 * 34;
  for (const Cut& cut : cuts) {
    const GuardedTensor starts(DType::i32, {batch, cut.length()}, starts_of(cut.length()));
    for (const bool documents : both) {
      for (const bool back : both) {
        SCOPED_TRACE(fmt::format("{} blocks, {} documents, {}", cut.blocks, documents, back));
        ops::RopeOptions options{.heads = 2, .kv_heads = 1, .base = 100.0};
        if (documents) options.document_starts = starts.view();
        const auto rotate = [&](const Tensor& x) {
          back ? ops::rope_backward(stream(), x, options) : ops::rope_forward(stream(), x, options);
        };
        const GuardedTensor whole = random_tensor(GetParam(), {batch, cut.length(), width}, 1);
        const Values before = whole.get();
        rotate(whole);
        const Values expected = whole.get();

        for (std::int64_t block = cut.blocks - 1; block >= 0; --block) {
          const GuardedTensor part(GetParam(), {batch, cut.rows(), width},
                                   cut.of(before, width, block));
          const GuardedTensor own(DType::i32, {batch, cut.rows()},
                                  cut.of(starts_of(cut.length()), 1, block));
          if (documents) options.document_starts = own.view();
          options.runs = cut.runs(block);
          rotate(part);
          EXPECT_EQ(part.get(), cut.of(expected, width, block)) << block;
        }
      }
    }
  }
}

TEST_P(RowsInRuns, AddThePositionsOfWholeSequences) {
  constexpr std::int64_t width = 19;
  for (const Cut& cut : cuts) {
    const GuardedTensor starts(DType::i32, {batch, cut.length()}, starts_of(cut.length()));
    const GuardedTensor table = random_tensor(GetParam(), {cut.length(), width}, 2);
    for (const bool documents : both) {
      SCOPED_TRACE(fmt::format("{} blocks, documents {}", cut.blocks, documents));
      const GuardedTensor whole = random_tensor(GetParam(), {batch, cut.length(), width}, 1);
      const Values before = whole.get();
      ops::add_positions(stream(), whole, whole, table, documents ? starts.view() : Tensor{});
      const Values expected = whole.get();

      for (std::int64_t block = 0; block < cut.blocks; ++block) {
        const GuardedTensor part(GetParam(), {batch, cut.rows(), width},
                                 cut.of(before, width, block));
        const GuardedTensor own(DType::i32, {batch, cut.rows()},
                                cut.of(starts_of(cut.length()), 1, block));
        ops::add_positions(stream(), part, part, table, documents ? own.view() : Tensor{},
                           cut.runs(block));
        EXPECT_EQ(part.get(), cut.of(expected, width, block)) << block;
      }
    }
  }
}

// Without documents each position is in one block, and one block has all rows in their order.
TEST_P(RowsInRuns, AddUpToTheGradientsOfPositions) {
  constexpr std::int64_t width = 19;
  for (const Cut& cut : cuts) {
    const Shape shape{batch, cut.length(), width};
    const GuardedTensor dy = random_tensor(GetParam(), shape, 1);
    const GuardedTensor starts(DType::i32, {batch, cut.length()}, starts_of(cut.length()));
    const auto table = [&] { return random_tensor(DType::f32, {cut.length() + 1, width}, 2); };
    const auto tokens_of = [](std::int64_t rows) {
      return GuardedTensor(DType::i32, {batch, rows},
                           Values(static_cast<std::size_t>(batch * rows), 0.0));
    };
    for (const bool documents : both) {
      SCOPED_TRACE(fmt::format("{} blocks, documents {}", cut.blocks, documents));
      const GuardedTensor whole = table(), sum = table(), apart = table();
      ops::embedding_backward(stream(), {}, whole, dy, tokens_of(cut.length()),
                              documents ? starts.view() : Tensor{});

      for (std::int64_t block = 0; block < cut.blocks; ++block) {
        const GuardedTensor part(GetParam(), {batch, cut.rows(), width},
                                 cut.of(dy.get(), width, block));
        const GuardedTensor own(DType::i32, {batch, cut.rows()},
                                cut.of(starts_of(cut.length()), 1, block));
        ops::embedding_backward(stream(), {}, sum, part, tokens_of(cut.rows()),
                                documents ? own.view() : Tensor{}, cut.runs(block));
        ops::add_positions_backward(stream(), apart, part, cut.runs(block));
      }

      if (!documents) {
        EXPECT_EQ(apart.get(), whole.get());
      }
      if (!documents || cut.blocks == 1) {
        EXPECT_EQ(sum.get(), whole.get());
      }
      expect_close(sum.get(), whole.get(), 1e-6, sum_rounding(batch * cut.length()));
    }
  }
}

TEST_P(RowsInRuns, OutsideTheirSamplesOrTablesAreRefused) {
  const GuardedTensor x(GetParam(), {2, 4, 8}), table(GetParam(), {9, 8});
  const GuardedTensor gradient(DType::f32, {9, 8}), spans(DType::i32, {2, 2}, {0, 0, 0, 0});
  const auto rotate = [&](const ops::RowRuns& runs, const Tensor& of = {}) {
    ops::rope_forward(stream(), x, {.heads = 2, .kv_heads = 1, .runs = runs}, of, 9);
  };
  const auto add = [&](const ops::RowRuns& runs, const Tensor& of = {}) {
    ops::add_positions(stream(), x, x, table, {}, runs, of);
  };

  expect_error([&] { rotate({5, 0, 9}); }, {"5 rows", "4 rows"});
  expect_error([&] { rotate({2, -1, 9}); }, {"position -1"});
  expect_error([&] { rotate({2, 0, 6}, spans); }, {"spans"});
  expect_error([&] { add({2, 0, 6}, spans); }, {"spans"});
  expect_error([&] { add({2, 0, 8}); }, {"position_table", "(9, 8)", "10 positions"});
  expect_error(
      [&] {
        ops::add_positions_backward(stream(), gradient, x, {2, 8, 0});
      },
      {"d_position_table", "10 positions"});
}

}  // namespace
}  // namespace trireme
