// SPDX-License-Identifier: Apache-2.0
// Norms of queries and keys: of each head, and of all of a row, which tensor blocks share.
#include <numeric>

#include "runtime/ops/norm/packed_norm.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;
using Tensors = std::vector<std::unique_ptr<GuardedTensor>>;

constexpr float epsilon = 1e-5F;

struct Case {
  std::int64_t batch, length, heads, kv_heads, size;
  bool whole = false;
  std::int64_t blocks = 1;

  [[nodiscard]] std::int64_t width() const { return (heads + 2 * kv_heads) * size; }
  [[nodiscard]] std::int64_t rows() const { return batch * length; }
  [[nodiscard]] std::int64_t count(int part) const { return part == 0 ? heads : kv_heads; }
  // Channels of a run, as many as of a scale.
  [[nodiscard]] std::int64_t run(int part) const { return whole ? count(part) * size : size; }
  [[nodiscard]] ops::PackedNormOptions options() const {
    return {heads, kv_heads, whole, blocks, epsilon};
  }
  [[nodiscard]] Shape sums() const { return {rows(), options().runs()}; }
};

// The blocks' projections, one after another, and their scales: queries' and keys' of each block.
Values norm(const Case& c, const Values& x, const std::array<Values, 2>& scales) {
  Values y = x;
  for (std::int64_t row = 0; row < c.rows(); ++row) {
    std::int64_t first = 0;
    for (const int p : {0, 1}) {
      for (std::int64_t run = 0; run < c.count(p) * c.size / c.run(p); ++run, first += c.run(p)) {
        const auto at = [&](std::int64_t b, std::int64_t i) {
          return static_cast<std::size_t>((b * c.rows() + row) * c.width() + first + i);
        };
        double squares = 0;
        for (std::int64_t b = 0; b < c.blocks; ++b)
          for (std::int64_t i = 0; i < c.run(p); ++i)
            squares += x[at(b, i)] * x[at(b, i)];
        const double inverse =
            1.0 / std::sqrt(squares / static_cast<double>(c.run(p) * c.blocks) + 1e-5);
        for (std::int64_t b = 0; b < c.blocks; ++b)
          for (std::int64_t i = 0; i < c.run(p); ++i)
            y[at(b, i)] *=
                inverse *
                scales[static_cast<std::size_t>(p)][static_cast<std::size_t>(b * c.run(p) + i)];
      }
    }
  }
  return y;
}

double inner(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Sums of all blocks from `of_block(b, sums of b)`.
template <typename OfBlock>
GuardedTensor summed(const Case& c, const OfBlock& of_block) {
  Values total(static_cast<std::size_t>(c.sums().count()));
  for (std::int64_t b = 0; b < c.blocks; ++b) {
    const GuardedTensor own(DType::f32, c.sums());
    of_block(b, own);
    const Values values = own.get();
    for (std::size_t i = 0; i < total.size(); ++i)
      total[i] += values[i];
  }
  return GuardedTensor(DType::f32, c.sums(), total);
}

const GuardedTensor& at(const Tensors& tensors, std::int64_t b) {
  return *tensors[static_cast<std::size_t>(b)];
}

Values joined(const Tensors& tensors) {
  Values all;
  for (const auto& tensor : tensors) {
    const Values own = tensor->get();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// The operands of all blocks; gradients of scales start at 0.5 and 0.25.
struct Blocks {
  Tensors x, y, dqkv, queries, keys, dqueries, dkeys;
  GuardedTensor rstd;

  Blocks(const Case& c, DType type) : rstd(DType::f32, c.sums()) {
    const Shape shape{c.batch, c.length, c.width()};
    for (unsigned b = 0; b < static_cast<unsigned>(c.blocks); ++b) {
      const auto random = [&](DType of, const Shape& shape_of, unsigned seed) {
        return std::make_unique<GuardedTensor>(
            random_tensor(of, shape_of, 10 * b + seed, 0.2, 2.0));
      };
      const auto constant = [](std::int64_t count, double value) {
        return std::make_unique<GuardedTensor>(DType::f32, Shape{count},
                                               Values(static_cast<std::size_t>(count), value));
      };
      x.push_back(random(type, shape, 1));
      dqkv.push_back(random(type, shape, 2));
      y.push_back(std::make_unique<GuardedTensor>(type, shape));
      queries.push_back(random(DType::f32, {c.run(0)}, 3));
      keys.push_back(random(DType::f32, {c.run(1)}, 4));
      dqueries.push_back(constant(c.run(0), 0.5));
      dkeys.push_back(constant(c.run(1), 0.25));
    }
  }
  [[nodiscard]] ops::PackedScales scales(std::int64_t b) const {
    return {at(queries, b), at(keys, b)};
  }

  // Both passes; with `given` from sums that are added over the blocks.
  void run(Stream& stream, const Case& c, bool given) const {
    const ops::PackedNormOptions options = c.options();
    const GuardedTensor squares = summed(c, [&](std::int64_t b, const GuardedTensor& own) {
      ops::packed_norm_sums(stream, own, at(x, b), options);
    });
    for (std::int64_t b = 0; b < c.blocks; ++b)
      ops::packed_norm_forward(stream, at(y, b), rstd, at(x, b), scales(b), options,
                               given ? squares : Tensor{});
    const GuardedTensor slopes = summed(c, [&](std::int64_t b, const GuardedTensor& own) {
      ops::packed_norm_sums(stream, own, at(x, b), options, at(dqkv, b), rstd, scales(b));
    });
    for (std::int64_t b = 0; b < c.blocks; ++b)
      ops::packed_norm_backward(stream, at(dqkv, b), {at(dqueries, b), at(dkeys, b)}, at(x, b),
                                rstd, scales(b), options, given ? slopes : Tensor{});
  }
};

class PackedNorm : public TypedOp {
 protected:
  void expect_formula(const Case& c, bool given) const {
    const Blocks blocks(c, GetParam());
    const std::array<Values, 2> scales{joined(blocks.queries), joined(blocks.keys)};
    const Values x = joined(blocks.x), slope = joined(blocks.dqkv);

    blocks.run(stream(), c, given);

    expect_close(joined(blocks.y), norm(c, x, scales), relative() + 1e-6, 1e-6);
    for (const std::size_t p : {0U, 1U}) {
      Values expected = numeric_gradient(scales[p], [&](const Values& v) {
        std::array<Values, 2> moved = scales;
        moved[p] = v;
        return inner(slope, norm(c, x, moved));
      });
      for (double& value : expected)
        value += p == 0 ? 0.5 : 0.25;
      const std::int64_t terms = c.rows() * (c.whole ? 1 : c.heads);
      expect_close(joined(p == 0 ? blocks.dqueries : blocks.dkeys), expected, 1e-5,
                   1e-5 + sum_rounding(terms));
    }
    if (c.length > 3) return;  // a loss an element
    expect_close(
        joined(blocks.dqkv),
        numeric_gradient(x, [&](const Values& v) { return inner(slope, norm(c, v, scales)); }),
        relative() + 1e-5, 1e-5 + relative());
  }
};
INSTANTIATE_TEST_SUITE_P(Types, PackedNorm, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(PackedNorm, OfHeadsFollowsTheFormulaAndFiniteDifferences) {
  for (const Case& c : {Case{1, 1, 1, 1, 1}, Case{2, 3, 3, 1, 5}, Case{1, 70, 4, 2, 40}}) {
    for (const bool given : {false, true})
      expect_formula(c, given);
  }
}

TEST_P(PackedNorm, OfBlocksFollowsTheFormulaAndFiniteDifferences) {
  for (const Case& c :
       {Case{1, 1, 1, 1, 1, true}, Case{2, 2, 3, 1, 5, true}, Case{1, 3, 2, 1, 4, true, 2},
        Case{1, 70, 4, 2, 20, true, 2}, Case{1, 40, 2, 2, 20, true, 2}}) {
    expect_formula(c, true);
    if (c.blocks == 1) expect_formula(c, false);
  }
}

TEST_P(PackedNorm, AddsTheOffsetToItsScales) {
  const Shape shape{2, 3, 5 * 6}, scale{6};
  const GuardedTensor x = random_tensor(GetParam(), shape, 1), rstd(DType::f32, {6, 4});
  const GuardedTensor gamma(DType::f32, scale, {0.5, -0.25, 0.0, 1.0, -2.0, 0.125});
  const GuardedTensor whole(DType::f32, scale, {1.5, 0.75, 1.0, 2.0, -1.0, 1.125});
  const GuardedTensor sums(DType::f32, scale, Values(6, 0.0));
  const GuardedTensor dqkv = random_tensor(GetParam(), shape, 4);
  const GuardedTensor same_dqkv(GetParam(), shape, dqkv.get());
  const GuardedTensor y(GetParam(), shape), same_y(GetParam(), shape);
  const GuardedTensor slopes(DType::f32, {6, 4}), same_slopes(DType::f32, {6, 4});
  const ops::PackedNormOptions options{.heads = 3, .kv_heads = 1, .epsilon = epsilon};
  ops::PackedNormOptions above = options;
  above.offset = 1;
  const auto run = [&](const Tensor& to, const Tensor& slope, const Tensor& slopes_to,
                       const Tensor& of, const ops::PackedNormOptions& with) {
    ops::packed_norm_forward(stream(), to, rstd, x, {of, of}, with);
    ops::packed_norm_sums(stream(), slopes_to, x, with, slope, rstd, {of, of});
    ops::packed_norm_backward(stream(), slope, {sums, sums}, x, rstd, {of, of}, with);
  };

  run(y, dqkv, slopes, gamma, above);
  run(same_y, same_dqkv, same_slopes, whole, options);

  EXPECT_EQ(y.raw(), same_y.raw());
  EXPECT_EQ(slopes.raw(), same_slopes.raw());
  EXPECT_EQ(dqkv.raw(), same_dqkv.raw());
}

TEST_P(PackedNorm, RefusesOperandsThatDoNotFit) {
  const GuardedTensor x(GetParam(), {1, 2, 12}), y(GetParam(), {1, 2, 12});
  const GuardedTensor sums(DType::f32, {2, 2}), few(DType::f32, {1, 2}), rstd(DType::f32, {2, 3});
  const GuardedTensor six(DType::f32, {6}), three(DType::f32, {3}), four(DType::f32, {4});
  const ops::PackedNormOptions heads{.heads = 2, .kv_heads = 1};
  const ops::PackedNormOptions whole{.heads = 2, .kv_heads = 1, .whole = true};
  const auto run = [&](const Tensor& to, const Tensor& statistic, const ops::PackedScales& scales,
                       const ops::PackedNormOptions& options) {
    ops::packed_norm_forward(stream(), to, statistic, x, scales, options);
  };
  expect_error([&] { run(y, rstd, {three, three}, {3, 1}); }, {"(1, 2, 12)", "3 heads"});
  expect_error([&] { run(y, rstd, {four, three}, heads); }, {"queries", "(4)", "(3)"});
  expect_error([&] { run(x, rstd, {three, three}, heads); }, {"y", "memory"});
  expect_error([&] { run(y, sums, {three, three}, whole); }, {"queries", "(3)", "(6)"});
  expect_error([&] { run(y, rstd, {six, three}, whole); }, {"rstd", "(2, 3)", "(2, 2)"});
  expect_error([&] { ops::packed_norm_sums(stream(), few, x, whole); }, {"sums", "(2, 2)"});
}

}  // namespace
}  // namespace trireme
