// SPDX-License-Identifier: Apache-2.0
// Norms of all queries and of all keys of a row, which tensor blocks share.
#include <numeric>

#include "runtime/ops/norm/projection_norm.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

constexpr float epsilon = 1e-5F;

struct Case {
  std::int64_t batch, length, heads, kv_heads, size, blocks;

  [[nodiscard]] std::int64_t width() const { return (heads + 2 * kv_heads) * size; }
  [[nodiscard]] std::int64_t rows() const { return batch * length; }
  [[nodiscard]] std::int64_t part(int p) const { return (p == 0 ? heads : kv_heads) * size; }
  [[nodiscard]] ops::ProjectionNormOptions options() const {
    return {heads, kv_heads, blocks, epsilon};
  }
};

// The blocks' projections, one after another, and their scales: queries' and keys' of each block.
Values norm(const Case& c, const Values& x, const std::array<Values, 2>& scales) {
  Values y = x;
  for (std::int64_t row = 0; row < c.rows(); ++row) {
    for (const int p : {0, 1}) {
      const auto at = [&](std::int64_t b, std::int64_t i) {
        return static_cast<std::size_t>((b * c.rows() + row) * c.width() + p * c.part(0) + i);
      };
      double squares = 0;
      for (std::int64_t b = 0; b < c.blocks; ++b)
        for (std::int64_t i = 0; i < c.part(p); ++i)
          squares += x[at(b, i)] * x[at(b, i)];
      const double inverse =
          1.0 / std::sqrt(squares / static_cast<double>(c.part(p) * c.blocks) + 1e-5);
      for (std::int64_t b = 0; b < c.blocks; ++b)
        for (std::int64_t i = 0; i < c.part(p); ++i)
          y[at(b, i)] *=
              inverse *
              scales[static_cast<std::size_t>(p)][static_cast<std::size_t>(b * c.part(p) + i)];
    }
  }
  return y;
}

double inner(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

class ProjectionNorm : public TypedOp {
 protected:
  // Sums of all blocks from `of_block(b, sums of b)`.
  template <typename OfBlock>
  [[nodiscard]] static GuardedTensor summed(const Case& c, const OfBlock& of_block) {
    Values total(static_cast<std::size_t>(2 * c.rows()));
    for (std::int64_t b = 0; b < c.blocks; ++b) {
      const GuardedTensor own(DType::f32, {c.rows(), 2});
      of_block(b, own);
      const Values values = own.get();
      for (std::size_t i = 0; i < total.size(); ++i)
        total[i] += values[i];
    }
    return GuardedTensor(DType::f32, {c.rows(), 2}, total);
  }
};
INSTANTIATE_TEST_SUITE_P(Types, ProjectionNorm,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

Values joined(const std::vector<std::unique_ptr<GuardedTensor>>& tensors) {
  Values all;
  for (const auto& tensor : tensors) {
    const Values own = tensor->get();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

TEST_P(ProjectionNorm, OfBlocksFollowsTheFormulaAndFiniteDifferences) {
  using Tensors = std::vector<std::unique_ptr<GuardedTensor>>;
  for (const Case& c : {Case{1, 1, 1, 1, 1, 1}, Case{2, 2, 3, 1, 5, 1}, Case{1, 3, 2, 1, 4, 2},
                        Case{1, 70, 4, 2, 20, 2}}) {
    const Shape shape{c.batch, c.length, c.width()};
    Tensors x, y, dqkv, queries, keys, dqueries, dkeys;
    for (unsigned b = 0; b < static_cast<unsigned>(c.blocks); ++b) {
      const auto random = [&](DType type, const Shape& of, unsigned seed) {
        return std::make_unique<GuardedTensor>(random_tensor(type, of, 10 * b + seed, 0.2, 2.0));
      };
      x.push_back(random(GetParam(), shape, 1));
      dqkv.push_back(random(GetParam(), shape, 2));
      queries.push_back(random(DType::f32, {c.part(0)}, 3));
      keys.push_back(random(DType::f32, {c.part(1)}, 4));
      y.push_back(std::make_unique<GuardedTensor>(GetParam(), shape));
      for (Tensors* const gradients : {&dqueries, &dkeys}) {
        const Shape part{c.part(gradients == &dqueries ? 0 : 1)};
        gradients->push_back(std::make_unique<GuardedTensor>(
            DType::f32, part, Values(static_cast<std::size_t>(part[0]), 0.5)));
      }
    }
    const std::array<Values, 2> scales{joined(queries), joined(keys)};
    const Values xv = joined(x), slope = joined(dqkv);
    const auto of = [&](const Tensors& q, const Tensors& k, std::int64_t b) {
      return ops::ProjectionScales{*q[static_cast<std::size_t>(b)],
                                   *k[static_cast<std::size_t>(b)]};
    };
    const auto at = [](const Tensors& tensors, std::int64_t b) -> const GuardedTensor& {
      return *tensors[static_cast<std::size_t>(b)];
    };

    const GuardedTensor squares = summed(c, [&](std::int64_t b, const GuardedTensor& own) {
      ops::projection_norm_squares(stream(), own, at(x, b), c.options());
    });
    const GuardedTensor slopes = summed(c, [&](std::int64_t b, const GuardedTensor& own) {
      ops::projection_norm_slopes(stream(), own, at(dqkv, b), at(x, b), squares,
                                  of(queries, keys, b), c.options());
    });
    for (std::int64_t b = 0; b < c.blocks; ++b) {
      ops::projection_norm_forward(stream(), at(y, b), at(x, b), squares, of(queries, keys, b),
                                   c.options());
      ops::projection_norm_backward(stream(), at(dqkv, b), of(dqueries, dkeys, b), at(x, b),
                                    squares, slopes, of(queries, keys, b), c.options());
    }

    expect_close(joined(y), norm(c, xv, scales), relative() + 1e-6, 1e-6);
    for (const std::size_t p : {0U, 1U}) {
      Values expected = numeric_gradient(scales[p], [&](const Values& v) {
        std::array<Values, 2> moved = scales;
        moved[p] = v;
        return inner(slope, norm(c, xv, moved));
      });
      for (double& value : expected)
        value += 0.5;
      expect_close(joined(p == 0 ? dqueries : dkeys), expected, 1e-5,
                   1e-5 + sum_rounding(c.rows()));
    }
    if (c.length > 3) continue;  // a loss an element
    expect_close(
        joined(dqkv),
        numeric_gradient(xv, [&](const Values& v) { return inner(slope, norm(c, v, scales)); }),
        relative() + 1e-5, 1e-5 + relative());
  }
}

TEST_P(ProjectionNorm, RefusesOperandsThatDoNotFit) {
  const GuardedTensor x(GetParam(), {1, 2, 12}), sums(DType::f32, {2, 2}), few(DType::f32, {1, 2});
  const GuardedTensor queries(DType::f32, {6}), keys(DType::f32, {3});
  const ops::ProjectionNormOptions options{.heads = 2, .kv_heads = 1};
  expect_error([&] { ops::projection_norm_squares(stream(), sums, x, {3, 1}); }, {"3 heads"});
  expect_error([&] { ops::projection_norm_squares(stream(), few, x, options); },
               {"sums", "(2, 2)"});
  expect_error(
      [&] {
        ops::projection_norm_forward(stream(), x, x, sums, {queries, keys}, options);
      },
      {"y", "memory"});
  expect_error(
      [&] {
        ops::projection_norm_forward(stream(), x, x, sums, {keys, keys}, options);
      },
      {"queries", "(3)", "(6)"});
}

}  // namespace
}  // namespace trireme
