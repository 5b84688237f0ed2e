// SPDX-License-Identifier: Apache-2.0
// Attention of blocks of rows to keys of the whole sequence, against attention of whole sequences.
#include <map>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/cudnn_graphs.h"
#include "tests/ops/attention/attention_parts.h"

namespace trireme {
namespace {

using namespace test;
using namespace test::parts;

class AttentionParts : public TypedOp {
 protected:
  // cuDNN's whole sequences have other bits.
  void expect_equal(const Values& seen, const Values& expected, double rounding) const {
    if (ops::attention_backend(stream().device().type(), GetParam()) == "own kernels") {
      EXPECT_EQ(seen, expected);
    } else {
      expect_close(seen, expected, rounding, rounding);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Types, AttentionParts,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

TEST_P(AttentionParts, AreTheRowsOfWholeSequences) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    const Whole whole(c, GetParam());
    const std::int64_t width = c.options.heads * c.size;
    const Values out = whole.out.get(), lse = whole.lse.get(), dqkv = whole.dqkv.get();
    for (std::int64_t b = 0; b < c.blocks; ++b) {
      const Block block(whole, b);
      const GuardedTensor dkeys = sums(c, c.options.kv_heads, 0),
                          dvalues = sums(c, c.options.kv_heads, 0);

      for (const std::size_t which : {0U, 1U}) {
        block.forward(which, 0, c.options.kv_heads);
        block.backward(dkeys, dvalues, which, 0, c.options.kv_heads);
      }

      expect_equal(block.out.get(), block.gathered(out, width), 5 * relative());
      for (const std::size_t which : {0U, 1U}) {
        const std::int64_t chunk = c.chunks(b)[which];
        const Window half{c.batch * c.options.heads,
                          2 * c.chunk,
                          1,
                          static_cast<std::int64_t>(which) * c.chunk,
                          c.chunk,
                          0,
                          1};
        expect_equal(half.of(block.lse.get()), whole.lse_rows(chunk).of(lse), 1e-5);
        const Window queries = block.half(c.places() * c.size, which, 0, width);
        Window expected = whole.rows(c.places() * c.size, chunk);
        expected.count = width;
        expect_equal(queries.of(block.dqkv.get()), expected.of(dqkv), 8 * relative());
      }
    }
  }
}

TEST_P(AttentionParts, AddUpToTheGradientsOfKeysValuesAndSinks) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    const Whole whole(c, GetParam());
    const std::int64_t kv = c.options.kv_heads;
    const GuardedTensor dkeys = sums(c, kv, 3), dvalues = sums(c, kv, -2);
    Values dsinks(static_cast<std::size_t>(c.options.heads));
    for (std::int64_t b = 0; b < c.blocks; ++b) {
      const Block block(whole, b);
      for (const std::size_t which : {0U, 1U}) {
        block.forward(which, 0, kv);
        block.backward(dkeys, dvalues, which, 0, kv);
      }
      const Values added = block.dsinks.get();
      std::transform(added.begin(), added.end(), dsinks.begin(), dsinks.begin(), std::plus<>());
    }

    const double rounding = 2 * relative() + sum_rounding(c.length());
    const Values expected = whole.dqkv.get();
    for (const auto& [tensor, place, start] : {std::tuple(&dkeys, c.options.heads, 3.0),
                                               std::tuple(&dvalues, c.options.heads + kv, -2.0)}) {
      Values seen = tensor->get();
      for (double& value : seen)
        value -= start;
      const Window of{c.batch,    c.length(),     c.places() * c.size, 0,
                      c.length(), place * c.size, kv * c.size};
      expect_close(seen, of.of(expected), rounding, 4 * rounding);
    }
    expect_close(dsinks, whole.dsinks.get(), 2 * rounding, 8 * rounding);
  }
}

TEST_P(AttentionParts, OfFewHeadsHaveTheBitsOfAll) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    const Whole whole(c, GetParam());
    const std::int64_t kv = c.options.kv_heads, last = c.blocks - 1;
    const Block all(whole, last), few(whole, last);
    const GuardedTensor dkeys = sums(c, kv, 1), dvalues = sums(c, kv, 1);
    for (const std::size_t which : {0U, 1U}) {
      all.forward(which, 0, kv);
      all.backward(dkeys, dvalues, which, 0, kv);
    }

    for (std::int64_t head = 0; head < kv; ++head) {
      const GuardedTensor dkey = sums(c, 1, 1), dvalue = sums(c, 1, 1);
      for (const std::size_t which : {0U, 1U}) {
        few.forward(which, head, 1);
        few.backward(dkey, dvalue, which, head, 1);
      }
      const Window own{c.batch, c.length(), kv * c.size, 0, c.length(), head * c.size, c.size};
      EXPECT_EQ(dkey.get(), own.of(dkeys.get()));
      EXPECT_EQ(dvalue.get(), own.of(dvalues.get()));
    }

    EXPECT_EQ(few.out.get(), all.out.get());
    EXPECT_EQ(few.lse.get(), all.lse.get());
    EXPECT_EQ(few.dqkv.get(), all.dqkv.get());
    EXPECT_EQ(few.dsinks.get(), all.dsinks.get());
  }
}

// A part that ends in the middle of the sequence, of the last key head.
TEST_P(AttentionParts, TouchNothingElse) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    const Whole whole(c, GetParam());
    const std::int64_t heads = c.options.heads, last = c.options.kv_heads - 1,
                       width = heads * c.size;
    const Block block(whole, c.blocks - 1);
    const GuardedTensor dkeys = sums(c, 1, poison), dvalues = sums(c, 1, poison);
    const std::int64_t own = last * c.group() * c.size, count = c.group() * c.size;

    block.forward(0, last, 1);
    block.backward(dkeys, dvalues, 0, last, 1);

    Values out = block.out.get(), lse = block.lse.get(), dqkv = block.dqkv.get();
    for (std::int64_t b = 0; b < c.batch; ++b) {
      for (std::int64_t h = last * c.group(); h < heads; ++h) {
        for (std::int64_t r = 0; r < c.chunk; ++r)
          lse[static_cast<std::size_t>((b * heads + h) * 2 * c.chunk + r)] = poison;
      }
    }
    block.half(width, 0, own, count).each([&](std::size_t at) { out[at] = poison; });
    block.half(c.places() * c.size, 0, own, count).each([&](std::size_t at) { dqkv[at] = poison; });
    for (const Values* left : {&out, &lse, &dqkv}) {
      EXPECT_TRUE(std::all_of(left->begin(), left->end(), [](double v) { return v == poison; }));
    }
    const std::int64_t seen = c.blocks * c.chunk;  // positions up to the part's end
    const Window after{c.batch, c.length(), c.size, seen, c.length() - seen, 0, c.size};
    for (const GuardedTensor* sum : {&dkeys, &dvalues})
      EXPECT_EQ(after.of(sum->get()),
                Values(static_cast<std::size_t>(after.batch * after.rows * c.size), poison));
  }
}

// Stands in for cuDNN under the emulated GPU: the queries are the last of whole samples.
class PartPlan final : public ops::cuda::CudnnPlan {
 public:
  explicit PartPlan(const ops::cuda::AttentionGraph& graph) : g_(graph) {}

  [[nodiscard]] std::size_t workspace_bytes() const override { return 100; }
  [[nodiscard]] DType result() const override { return g_.part.f32 ? DType::f32 : g_.dtype; }
  void run(Stream& /*stream*/, std::span<void* const> operands,
           void* /*workspace*/) const override {
    ++runs;
    const GuardedTensor qkv(g_.dtype, {g_.batch, g_.length, places() * g_.size});
    const GuardedTensor out(g_.dtype, {g_.batch, g_.length, g_.heads * g_.size});
    const GuardedTensor lse(DType::f32, {g_.batch, g_.heads, g_.length});
    const std::int64_t row = (g_.part.heads + 2 * g_.part.kv_heads) * g_.size, first = first_row();
    Values packed(static_cast<std::size_t>(qkv.view().shape.count()));
    move(packed, columns(0, g_.heads, first), operands[0], g_.dtype, g_.part.rows, row, false);
    for (const std::size_t part : {1U, 2U}) {
      move(packed, key_columns(part), operands[part], g_.dtype, g_.part.positions,
           g_.kv_heads * g_.size, false);
    }
    const GuardedTensor filled(g_.dtype, qkv.view().shape, packed);
    ops::AttentionOptions options{.heads = g_.heads, .kv_heads = g_.kv_heads, .window = g_.window};
    options.scale = static_cast<double>(g_.scale);
    ops::attention_forward(stream(), out, lse, filled, options);
    const Window results{g_.batch,        g_.length, g_.heads * g_.size, first,
                         g_.part.queries, 0,         g_.heads * g_.size};
    const Window kept{g_.batch * g_.heads, g_.length, 1, first, g_.part.queries, 0, 1};
    const std::int64_t width = g_.part.heads * g_.size;
    Values lse_rows = lse.get(), out_rows = out.get();
    if (g_.pass == ops::cuda::AttentionGraph::Pass::forward) {
      move(out_rows, results, operands[3], g_.dtype, g_.part.rows, width, true);
      move(lse_rows, kept, operands[4], DType::f32, g_.part.queries, 1, true);
      return;
    }
    Values dout_rows(out_rows.size());
    move(out_rows, results, operands[3], g_.dtype, g_.part.rows, width, false);
    move(lse_rows, kept, operands[4], DType::f32, g_.part.queries, 1, false);
    move(dout_rows, results, operands[5], g_.dtype, g_.part.rows, width, false);
    const GuardedTensor given(g_.dtype, out.view().shape, out_rows),
        dout(g_.dtype, out.view().shape, dout_rows), sums(DType::f32, lse.view().shape, lse_rows);
    ops::attention_backward(stream(), qkv, dout, given, sums, filled, options);
    packed = qkv.get();
    move(packed, columns(0, g_.heads, first), operands[6], g_.dtype, g_.part.rows, row, true);
    for (const std::size_t part : {1U, 2U}) {
      move(packed, key_columns(part), operands[6 + part], result(), g_.length,
           g_.kv_heads * g_.size, true);
    }
  }
  static inline int runs = 0;
  static const ops::cuda::CudnnPlan* make(const ops::cuda::CudnnGraph& graph) {
    const auto& attention = std::get<ops::cuda::AttentionGraph>(graph);
    static std::map<ops::cuda::CudnnGraph, PartPlan> plans;
    if (attention.part.queries == 0 || attention.soft_cap > 0) return nullptr;
    return &plans.try_emplace(graph, attention).first->second;
  }

 private:
  [[nodiscard]] std::int64_t places() const { return g_.heads + 2 * g_.kv_heads; }
  [[nodiscard]] std::int64_t first_row() const { return g_.length - g_.part.queries; }
  // Heads [place, place + count) of the whole samples' projection, from a row on.
  [[nodiscard]] Window columns(std::int64_t place, std::int64_t count, std::int64_t row) const {
    return {g_.batch,        g_.length,       places() * g_.size, row,
            g_.length - row, place * g_.size, count * g_.size};
  }
  [[nodiscard]] Window key_columns(std::size_t part) const {
    return columns(g_.heads + (static_cast<std::int64_t>(part) - 1) * g_.kv_heads, g_.kv_heads, 0);
  }
  // Between a window of values and memory whose samples have `rows` rows of `width`.
  static void move(Values& values, const Window& window, void* memory, DType dtype,
                   std::int64_t rows, std::int64_t width, bool out) {
    for (std::int64_t b = 0; b < window.batch; ++b) {
      for (std::int64_t r = 0; r < window.rows; ++r) {
        auto* const at = static_cast<std::byte*>(memory) +
                         static_cast<std::size_t>((b * rows + r) * width) * size_of(dtype);
        const std::size_t from = static_cast<std::size_t>(
            (b * window.all_rows + window.row + r) * window.width + window.first);
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(from);
        const GuardedTensor row(dtype, {window.count}, Values(begin, begin + window.count));
        const std::size_t bytes = row.view().bytes();
        std::vector<std::byte> copied(bytes);
        test::download(stream(), copied.data(), out ? row.view().data : at, bytes);
        test::upload(stream(), out ? at : row.view().data, copied.data(), bytes);
        const Values read = row.get();
        std::copy(read.begin(), read.end(), begin);
      }
    }
  }

  ops::cuda::AttentionGraph g_;
};

TEST_P(AttentionParts, RunByPlansOfTheLibrary) {
  if (stream().device().type() != DeviceType::cuda || !ops::cuda::cudnn_version().empty() ||
      GetParam() == DType::f32)
    GTEST_SKIP() << "the stand-in for cuDNN is for the emulated GPU, and runs 16 bits";
  for (Case c : cases) {
    if (c.length() > 100 || c.options.soft_cap > 0 || !c.documents.empty()) continue;
    c.options.scale = 0.3;  // no other test has asked for these plans
    SCOPED_TRACE(c.name());
    const Whole whole(c, GetParam());
    const std::int64_t head = c.options.kv_heads - 1;
    const auto run = [&](bool documents) {
      Block block(whole, c.blocks - 1);
      if (documents) block.options.document_starts = block.starts.view();  // one a sequence
      const GuardedTensor dkeys = sums(c, 1, 1), dvalues = sums(c, 1, 1);
      for (const std::size_t which : {0U, 1U}) {
        block.forward(which, head, 1);
        block.backward(dkeys, dvalues, which, head, 1);
      }
      return std::array{block.out.get(),    block.lse.get(), block.dqkv.get(),
                        block.dsinks.get(), dkeys.get(),     dvalues.get()};
    };
    const auto expected = run(true);

    cuda_slot<& ops::cuda::cudnn_plan> = &PartPlan::make;
    PartPlan::runs = 0;
    const auto seen = run(false);
    cuda_slot<& ops::cuda::cudnn_plan> = nullptr;

    EXPECT_EQ(PartPlan::runs, 4);
    const double rounding = 8 * relative();
    for (std::size_t i = 0; i < seen.size(); ++i)
      expect_close(seen[i], expected[i], rounding, i < 3 ? rounding : 4 * rounding);
  }
}

TEST_P(AttentionParts, OfOtherShapesAreRefused) {
  const ops::AttentionOptions options{.heads = 4, .kv_heads = 2};
  const GuardedTensor qkv(GetParam(), {2, 3, 32}), out(GetParam(), {2, 3, 16});
  const GuardedTensor lse(DType::f32, {2, 4, 3});
  const GuardedTensor keys(GetParam(), {2, 9, 4}), values(GetParam(), {2, 9, 4});
  const GuardedTensor odd(GetParam(), {2, 9, 6}), few(GetParam(), {1, 9, 4});
  const auto attend = [&](const Tensor& k, const Tensor& v, const ops::AttentionPart& part,
                          ops::AttentionOptions with) {
    ops::attention_part_forward(stream(), out, lse, qkv, k, v, part, with);
  };

  expect_error([&] { attend(odd, values, {.rows = 3}, options); }, {"keys", "(2, 9, 6)", "size 4"});
  expect_error([&] { attend(few, values, {.rows = 3}, options); }, {"keys", "(1, 9, 4)"});
  expect_error([&] { attend(keys, few, {.rows = 3}, options); }, {"values", "(1, 9, 4)"});
  expect_error([&] { attend(keys, values, {.rows = 3, .key_head = 2}, options); }, {"key head 2"});
  expect_error([&] { attend(keys, values, {.row = 1, .rows = 3}, options); },
               {"3 rows from row 1"});
  expect_error([&] { attend(keys, values, {.rows = 3, .position = 7}, options); }, {"position 7"});
  expect_error(
      [&] { attend(keys, values, {.rows = 3}, {.heads = 4, .kv_heads = 2, .causal = false}); },
      {"causal"});
  const GuardedTensor dqkv(GetParam(), {2, 3, 32}), sums(DType::f32, {2, 9, 4});
  expect_error(
      [&] {
        ops::attention_part_backward(stream(), dqkv, sums, sums, out, out, lse, qkv, keys, values,
                                     {.rows = 3}, options);
      },
      {"dkeys", "dvalues"});
}

}  // namespace
}  // namespace trireme
