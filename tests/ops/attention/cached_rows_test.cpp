// SPDX-License-Identifier: Apache-2.0
// Passes of a few rows with cached earlier rows, against the same ops over whole texts.
#include "runtime/ops/attention/attention.h"
#include "runtime/ops/elementwise/rope.h"
#include "runtime/ops/loss/embedding.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class CachedRows : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, CachedRows, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

struct Text {
  ops::AttentionOptions options;
  std::int64_t length, size;
  std::vector<std::int64_t> pieces;  // rows per pass

  [[nodiscard]] std::int64_t packed() const {
    return (options.heads + 2 * options.kv_heads) * size;
  }
};

// Pieces that end within tiles, beside the blocks of 48 queries and 96 keys, and that are all of
// it.
const Text texts[] = {{{.heads = 1, .kv_heads = 1}, 5, 3, {5}},
                      {{.heads = 2, .kv_heads = 2}, 110, 16, {64, 33, 1, 1, 11}},
                      {{.heads = 4, .kv_heads = 2}, 150, 20, {96, 1, 1, 50, 1, 1}},
                      {{.heads = 3, .kv_heads = 1, .window = 7}, 120, 64, {49, 47, 1, 23}},
                      {{.heads = 2, .kv_heads = 1, .window = 97}, 210, 18, {100, 97, 1, 12}},
                      {{.heads = 2, .kv_heads = 1, .soft_cap = 0.7}, 70, 80, {1, 1, 64, 4}},
                      {{.heads = 1, .kv_heads = 1}, 40, 256, {13, 27}}};

// Rows [first, first + count) of a (1, length, width) tensor, padded with other values to `rows`.
Values rows_of(const Values& values, std::int64_t width, std::int64_t first, std::int64_t count) {
  return {values.begin() + first * width, values.begin() + (first + count) * width};
}

// The second sample of each pass waits: the first alone is read.
TEST_P(CachedRows, AttendAsTheyWouldInTheWholeText) {
  for (const Text& t : texts) {
    const auto& o = t.options;
    SCOPED_TRACE(
        fmt::format("{} rows, {} of {} heads, window {}", t.length, o.heads, o.kv_heads, o.window));
    const std::int64_t width = o.heads * t.size;
    const GuardedTensor qkv = random_tensor(GetParam(), {1, t.length, t.packed()}, 1, -2.0, 2.0);
    const GuardedTensor whole(GetParam(), {1, t.length, width});
    const GuardedTensor lse(DType::f32, {1, o.heads, t.length});
    ops::attention_forward(stream(), whole, lse, qkv, o);
    const Shape cache{2, t.length, o.kv_heads * t.size};
    const GuardedTensor keys(GetParam(), cache), values(GetParam(), cache);
    const Values text = qkv.get(), expected = whole.get();

    std::int64_t first = 0;
    for (const std::int64_t count : t.pieces) {
      const std::int64_t rows = count + 3;
      Values pass = rows_of(text, t.packed(), first, count);
      pass.resize(static_cast<std::size_t>(2 * rows * t.packed()), std::nan(""));
      const GuardedTensor part(GetParam(), {2, rows, t.packed()}, pass);
      const GuardedTensor out(GetParam(), {2, rows, width});
      const GuardedTensor spans(DType::i32, {2, 2},
                                {static_cast<double>(first), static_cast<double>(count), 0, 0});

      ops::attention_cached_forward(stream(), out, keys, values, part, spans, o);

      const Values result = out.get(), here = rows_of(result, width, 0, count);
      if (stream().device().type() == DeviceType::cpu) {
        EXPECT_EQ(here, rows_of(expected, width, first, count));
      } else {
        expect_close(here, rows_of(expected, width, first, count), 2.5 * relative() + 1e-5, 5e-6);
      }
      EXPECT_TRUE(std::all_of(result.begin() + count * width, result.end(),
                              [](double value) { return value == 0; }));
      first += count;
    }
    ASSERT_EQ(first, t.length);
    const std::int64_t at = (t.length - 1) * t.packed() + o.heads * t.size;
    EXPECT_EQ(keys.get()[static_cast<std::size_t>((t.length - 1) * o.kv_heads * t.size)],
              text[static_cast<std::size_t>(at)]);
  }
}

TEST_P(CachedRows, ReadTheSamplesOfAPassEachAtItsPlace) {
  constexpr std::int64_t lengths[] = {9, 30}, rows = 4, width = 2 * 8, packed = 4 * 8;
  const ops::AttentionOptions options{.heads = 2, .kv_heads = 1};
  const GuardedTensor keys(GetParam(), {2, 32, 8}), values(GetParam(), {2, 32, 8});
  const GuardedTensor all = random_tensor(GetParam(), {2, 30, packed}, 3);
  const GuardedTensor whole(GetParam(), {2, 30, width}), lse(DType::f32, {2, 2, 30});
  ops::attention_forward(stream(), whole, lse, all, options);
  const Values text = all.get(), expected = whole.get();

  for (std::int64_t first = 0; first < 30; first += rows) {
    Values pass(static_cast<std::size_t>(2 * rows * packed)), spans;
    for (std::int64_t b = 0; b < 2; ++b) {
      const std::int64_t count = std::clamp<std::int64_t>(lengths[b] - first, 0, rows);
      for (std::int64_t i = 0; i < count * packed; ++i)
        pass[static_cast<std::size_t>(b * rows * packed + i)] =
            text[static_cast<std::size_t>((b * 30 + first) * packed + i)];
      spans.insert(spans.end(), {static_cast<double>(first), static_cast<double>(count)});
    }
    const GuardedTensor part(GetParam(), {2, rows, packed}, pass),
        out(GetParam(), {2, rows, width});

    ops::attention_cached_forward(stream(), out, keys, values, part,
                                  GuardedTensor(DType::i32, {2, 2}, spans), options);

    const Values result = out.get();
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto count = static_cast<std::int64_t>(spans[static_cast<std::size_t>(2 * b + 1)]);
      expect_close(rows_of(result, width, b * rows, count),
                   rows_of(expected, width, b * 30 + first, count), 2.5 * relative() + 1e-5, 5e-6);
    }
  }
}

// Equal bits: the angles depend on the position, not on the row; padding has the last position.
TEST_P(CachedRows, HaveThePositionsOfTheirText) {
  constexpr std::int64_t length = 12, width = 4 * 6;
  const ops::RopeOptions options{.heads = 2, .kv_heads = 1, .base = 100.0};
  const GuardedTensor table = random_tensor(GetParam(), {length, width}, 1);
  const GuardedTensor turned = random_tensor(GetParam(), {1, length, width}, 2);
  const GuardedTensor placed(GetParam(), {1, length, width}, turned.get());
  const Values text = turned.get();
  ops::rope_forward(stream(), turned, options);
  ops::add_positions(stream(), placed, placed, table);
  const GuardedTensor spans(DType::i32, {2, 2}, {3, 4, 10, 2});
  Values pass = rows_of(text, width, 3, 4);
  for (const std::int64_t row : {10, 11, 11, 11}) {
    const Values more = rows_of(text, width, row, 1);
    pass.insert(pass.end(), more.begin(), more.end());
  }
  const GuardedTensor rows(GetParam(), {2, 4, width}, pass),
      others(GetParam(), {2, 4, width}, pass);

  ops::rope_forward(stream(), rows, options, spans, length);
  ops::add_positions(stream(), others, others, table, {}, {}, spans);

  for (const auto& [part, whole] : {std::pair(&rows, &turned), std::pair(&others, &placed)}) {
    const Values result = part->get(), expected = whole->get();
    EXPECT_EQ(rows_of(result, width, 0, 4), rows_of(expected, width, 3, 4));
    EXPECT_EQ(rows_of(result, width, 4, 2), rows_of(expected, width, 10, 2));
    EXPECT_EQ(rows_of(result, width, 7, 1), rows_of(expected, width, 11, 1));
  }
}

TEST_P(CachedRows, OfOtherShapesAreRefused) {
  const ops::AttentionOptions options{.heads = 2, .kv_heads = 1};
  const GuardedTensor qkv(GetParam(), {2, 3, 16}), out(GetParam(), {2, 3, 8});
  const GuardedTensor keys(GetParam(), {2, 9, 4}), values(GetParam(), {2, 9, 4});
  const GuardedTensor few(GetParam(), {1, 9, 4}), spans(DType::i32, {2, 2}, {0, 0, 0, 0});
  const GuardedTensor table(GetParam(), {3, 16});
  const auto attend = [&](const Tensor& k, const Tensor& v, const Tensor& s) {
    ops::attention_cached_forward(stream(), out, k, v, qkv, s, options);
  };

  expect_error([&] { attend(few, values, spans); }, {"keys", "(1, 9, 4)", "(2, 9, 4)"});
  expect_error([&] { attend(keys, few, spans); }, {"values", "(1, 9, 4)"});
  expect_error([&] { attend(keys, keys, spans); }, {"keys", "values"});
  expect_error([&] { attend(keys, values, spans.view().range(0, 2)); }, {"spans", "(2, 2)"});
  expect_error(
      [&] {
        ops::attention_cached_forward(stream(), out, keys, values, qkv, spans,
                                      {.heads = 2, .kv_heads = 1, .causal = false});
      },
      {"causal"});
  expect_error([&] { ops::rope_forward(stream(), qkv, {.heads = 2, .kv_heads = 1}, spans); },
               {"0 positions"});
  expect_error(
      [&] { ops::add_positions(stream(), qkv, qkv, table, {}, {}, spans.view().range(0, 2)); },
      {"spans"});
}

}  // namespace
}  // namespace trireme
