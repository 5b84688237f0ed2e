// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/linear.h"

#include "runtime/ops/common/scratch.h"
#include "runtime/ops/gemm/matmul_cpu.h"
#include "runtime/ops/gemm/split_matmul_cpu.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class Linear : public ::testing::TestWithParam<DType> {
 protected:
  // A product of `terms` values below one, then one rounding of the result.
  [[nodiscard]] double absolute(std::int64_t terms) const { return 4 * sum_rounding(terms); }
  [[nodiscard]] double relative() const { return rounding_of(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Types, Linear, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

struct Sizes {
  std::int64_t rows, outputs, inputs;
};
// Odd, one, and beyond every chunk of the implementation (256, 384 and 512 rows, 2048 outputs, 1536
// values of a sum).
const Sizes all_sizes[] = {{1, 1, 1},     {3, 7, 5},     {17, 33, 19},
                           {33, 17, 256}, {7, 256, 64},  {530, 37, 256},
                           {600, 24, 11}, {19, 2051, 9}, {8, 5, 1600}};

// c(M, N) = a(M, K) b(K, N) with any strides.
struct View {
  const Values& data;
  std::int64_t row, column;
};
Values product(std::int64_t m, std::int64_t n, std::int64_t k, View a, View b) {
  Values c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += a.data[static_cast<std::size_t>(i * a.row + l * a.column)] *
               b.data[static_cast<std::size_t>(l * b.row + j * b.column)];
      }
      c[static_cast<std::size_t>(i * n + j)] = sum;
    }
  }
  return c;
}

Values sum_of(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] += b[i % b.size()];
  return a;
}

Values column_sums(const Values& a, std::int64_t columns) {
  Values sums(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < a.size(); ++i)
    sums[i % sums.size()] += a[i];
  return sums;
}

TEST_P(Linear, ForwardMultipliesByTheTransposedWeight) {
  for (const auto& [n, o, i] : all_sizes) {
    const GuardedTensor x = random_tensor(GetParam(), {n, i}, 1);
    const GuardedTensor w = random_tensor(GetParam(), {o, i}, 2);
    const GuardedTensor y(GetParam(), {n, o});

    ops::linear_forward(stream(), y, x, w);

    expect_close(y.get(), product(n, o, i, {x.get(), i, 1}, {w.get(), 1, i}), relative(),
                 absolute(i));
  }
}

TEST_P(Linear, ForwardAddsBiasAndResidual) {
  for (const auto& [n, o, i] : all_sizes) {
    const GuardedTensor x = random_tensor(GetParam(), {n, i}, 1);
    const GuardedTensor w = random_tensor(GetParam(), {o, i}, 2);
    const GuardedTensor bias = random_tensor(DType::f32, {o}, 3);
    const GuardedTensor residual = random_tensor(GetParam(), {n, o}, 4);
    const GuardedTensor both(GetParam(), {n, o}), biased(GetParam(), {n, o}),
        added(GetParam(), {n, o});
    const Values plain = product(n, o, i, {x.get(), i, 1}, {w.get(), 1, i});

    ops::linear_forward(stream(), both, x, w, bias, residual);
    ops::linear_forward(stream(), biased, x, w, bias);
    ops::linear_forward(stream(), added, x, w, {}, residual);

    const double with_bias = absolute(i) + bias_rounding(GetParam());
    expect_close(both.get(), sum_of(sum_of(plain, bias.get()), residual.get()), relative(),
                 with_bias);
    expect_close(biased.get(), sum_of(plain, bias.get()), relative(), with_bias);
    expect_close(added.get(), sum_of(plain, residual.get()), relative(), absolute(i));
  }
}

TEST_P(Linear, TakesLeadingExtentsAsRows) {
  const GuardedTensor x = random_tensor(GetParam(), {2, 3, 5}, 1);
  const GuardedTensor w = random_tensor(GetParam(), {4, 5}, 2);
  const GuardedTensor y(GetParam(), {2, 3, 4});

  ops::linear_forward(stream(), y, x, w);

  expect_close(y.get(), product(6, 4, 5, {x.get(), 5, 1}, {w.get(), 1, 5}), relative(),
               absolute(5));
}

TEST_P(Linear, BackwardInputOverwritesOrAccumulates) {
  for (const auto& [n, o, i] : all_sizes) {
    const GuardedTensor dy = random_tensor(GetParam(), {n, o}, 1);
    const GuardedTensor w = random_tensor(GetParam(), {o, i}, 2);
    const GuardedTensor fresh(GetParam(), {n, i});
    const GuardedTensor grown = random_tensor(GetParam(), {n, i}, 3);
    const Values expected = product(n, i, o, {dy.get(), o, 1}, {w.get(), i, 1});
    const Values expected_sum = sum_of(expected, grown.get());

    ops::linear_backward_input(stream(), fresh, dy, w);
    ops::linear_backward_input(stream(), grown, dy, w, true);

    expect_close(fresh.get(), expected, relative(), absolute(o));
    expect_close(grown.get(), expected_sum, relative(), absolute(o));
  }
}

TEST_P(Linear, BackwardWeightAccumulatesInSinglePrecision) {
  for (const auto& [n, o, i] : all_sizes) {
    const GuardedTensor dy = random_tensor(GetParam(), {n, o}, 1);
    const GuardedTensor x = random_tensor(GetParam(), {n, i}, 2);
    const GuardedTensor dw = random_tensor(DType::f32, {o, i}, 3);
    const GuardedTensor db = random_tensor(DType::f32, {o}, 4);
    const Values expected_dw =
        sum_of(product(o, i, n, {dy.get(), 1, o}, {x.get(), i, 1}), dw.get());
    const Values expected_db = sum_of(column_sums(dy.get(), o), db.get());

    ops::linear_backward_weight(stream(), dw, db, dy, x);

    expect_close(dw.get(), expected_dw, 1e-6, absolute(n));
    expect_close(db.get(), expected_db, 1e-6, absolute(n));
  }
}

TEST_P(Linear, BackwardWeightGoesWithoutBias) {
  const GuardedTensor dy = random_tensor(GetParam(), {9, 3}, 1);
  const GuardedTensor x = random_tensor(GetParam(), {9, 5}, 2);
  const GuardedTensor dw(DType::f32, {3, 5}, Values(15, 0.0));

  ops::linear_backward_weight(stream(), dw, {}, dy, x);

  expect_close(dw.get(), product(3, 5, 9, {dy.get(), 1, 3}, {x.get(), 5, 1}), 1e-6, absolute(9));
}

TEST(LinearGradients, AgreeWithFiniteDifferences) {
  constexpr std::int64_t n = 5, o = 4, i = 3;
  const GuardedTensor x = random_tensor(DType::f32, {n, i}, 1);
  const GuardedTensor w = random_tensor(DType::f32, {o, i}, 2);
  const GuardedTensor bias = random_tensor(DType::f32, {o}, 3);
  const GuardedTensor dy = random_tensor(DType::f32, {n, o}, 4);
  const GuardedTensor dx(DType::f32, {n, i});
  const GuardedTensor dw(DType::f32, {o, i}, Values(o * i, 0.0));
  const GuardedTensor db(DType::f32, {o}, Values(o, 0.0));
  const Values slope = dy.get();
  const auto loss = [&](const Values& xs, const Values& ws, const Values& bs) {
    const Values y = sum_of(product(n, o, i, {xs, i, 1}, {ws, 1, i}), bs);
    double sum = 0;
    for (std::size_t k = 0; k < y.size(); ++k)
      sum += y[k] * slope[k];
    return sum;
  };

  ops::linear_backward_input(stream(), dx, dy, w);
  ops::linear_backward_weight(stream(), dw, db, dy, x);

  const Values xv = x.get(), wv = w.get(), bv = bias.get();
  expect_close(dx.get(), numeric_gradient(xv, [&](const Values& v) { return loss(v, wv, bv); }),
               1e-5, 1e-6);
  expect_close(dw.get(), numeric_gradient(wv, [&](const Values& v) { return loss(xv, v, bv); }),
               1e-5, 1e-6);
  expect_close(db.get(), numeric_gradient(bv, [&](const Values& v) { return loss(xv, wv, v); }),
               1e-5, 1e-6);
}

TEST_P(Linear, GivesTheSameBitsEachTimeAndAllocatesNoMoreScratch) {
  constexpr std::int64_t n = 530, o = 256, i = 256;
  const GuardedTensor x = random_tensor(GetParam(), {n, i}, 1);
  const GuardedTensor w = random_tensor(GetParam(), {o, i}, 2);
  const GuardedTensor bias = random_tensor(DType::f32, {o}, 3);
  const auto run = [&] {
    const GuardedTensor y(GetParam(), {n, o});
    const GuardedTensor dx(GetParam(), {n, i});
    const GuardedTensor dw(DType::f32, {o, i}, Values(o * i, 0.0));
    const GuardedTensor db(DType::f32, {o}, Values(o, 0.0));
    ops::linear_forward(stream(), y, x, w, bias);
    ops::linear_backward_input(stream(), dx, y, w);
    ops::linear_backward_weight(stream(), dw, db, y, x);
    return std::tuple(y.raw(), dx.raw(), dw.raw(), db.raw());
  };

  const auto first = run();
  const std::size_t allocations = ops::cpu::scratch_allocations();

  EXPECT_EQ(run(), first);
  EXPECT_EQ(ops::cpu::scratch_allocations(), allocations);
}

// Two parts of 8 bits would lose a third of a float's bits; f32 products must lose none here.
TEST(LinearBits, OfAFactorSurviveAProductWithOne) {
  constexpr std::int64_t n = 70, i = 40;
  const GuardedTensor x = random_tensor(DType::f32, {n, i}, 1, -1e4, 1e4);
  Values identity(i * i, 0.0);
  for (std::int64_t k = 0; k < i; ++k)
    identity[static_cast<std::size_t>(k * i + k)] = 1.0;
  const GuardedTensor w(DType::f32, {i, i}, identity), y(DType::f32, {n, i}),
      dx(DType::f32, {n, i});
  const GuardedTensor dw(DType::f32, {i, n}, Values(i * n, 0.0));
  Values transposed(i * n), diagonal(n * n, 0.0);
  for (std::int64_t r = 0; r < n; ++r) {
    diagonal[static_cast<std::size_t>(r * n + r)] = 1.0;
    for (std::int64_t k = 0; k < i; ++k)
      transposed[static_cast<std::size_t>(k * n + r)] =
          x.get()[static_cast<std::size_t>(r * i + k)];
  }
  const GuardedTensor ones(DType::f32, {n, n}, diagonal);

  ops::linear_forward(stream(), y, x, w);
  ops::linear_backward_input(stream(), dx, x, w);
  ops::linear_backward_weight(stream(), dw, {}, x, ones);

  EXPECT_EQ(y.get(), x.get());
  EXPECT_EQ(dx.get(), x.get());
  EXPECT_EQ(dw.get(), transposed);
}

// Required by tensor parallelism, micro-batches and cached generation.
TEST(LinearBits, OfARowAreThoseInAnyBatchAndAnySplitOfOutputs) {
  if (stream().device().type() != DeviceType::cpu) GTEST_SKIP() << "a library's choice on a GPU";
  if (!ops::cpu::multiplies_in_parts()) GTEST_SKIP() << "a library's choice without tiles of bf16";
  constexpr std::int64_t n = 401, o = 150, i = 1700, half = o / 2;
  const GuardedTensor x = random_tensor(DType::f32, {n, i}, 1);
  const GuardedTensor w = random_tensor(DType::f32, {o, i}, 2);
  const GuardedTensor y(DType::f32, {n, o}), dx(DType::f32, {n, i});
  ops::linear_forward(stream(), y, x, w);
  ops::linear_backward_input(stream(), dx, y, w);
  const Values all = y.get(), slopes = dx.get();

  for (const std::int64_t rows : {1, 2, 7, 385}) {
    const Tensor some = x.view().range((n - rows) * i, rows * i).reshaped({rows, i});
    const Tensor from = y.view().range((n - rows) * o, rows * o).reshaped({rows, o});
    const GuardedTensor end(DType::f32, {rows, half}), slope(DType::f32, {rows, i});

    ops::linear_forward(stream(), end, some,
                        w.view().range(half * i, half * i).reshaped({half, i}));
    ops::linear_backward_input(stream(), slope, from, w);

    Values expected;
    for (std::int64_t r = n - rows; r < n; ++r)
      expected.insert(expected.end(), all.begin() + r * o + half, all.begin() + (r + 1) * o);
    EXPECT_EQ(end.get(), expected) << rows << " rows";
    EXPECT_EQ(slope.get(), Values(slopes.end() - rows * i, slopes.end())) << rows << " rows";
  }
}

TEST_P(Linear, RefusesOperandsThatDoNotFit) {
  const GuardedTensor x(GetParam(), {4, 3});
  const GuardedTensor w(GetParam(), {5, 3});
  const GuardedTensor y(GetParam(), {4, 5});
  const GuardedTensor narrow(GetParam(), {4, 2});
  const GuardedTensor fewer(GetParam(), {3, 5});
  const GuardedTensor bias(DType::f32, {4});
  const GuardedTensor doubles(DType::f64, {4, 5});
  const GuardedTensor dw(DType::f32, {5, 3});

  expect_error([&] { ops::linear_forward(stream(), y, narrow, w); }, {"(4, 2)", "(5, 3)"});
  expect_error([&] { ops::linear_forward(stream(), fewer, x, w); }, {"(4, 3)", "(3, 5)"});
  expect_error([&] { ops::linear_forward(stream(), y, x, w, bias); }, {"bias", "(4)", "(5)"});
  expect_error([&] { ops::linear_forward(stream(), doubles, x, w); }, {"y", "f64"});
  expect_error([&] { ops::linear_forward(stream(), y, x, w, {}, y); }, {"residual", "memory"});
  expect_error([&] { ops::linear_backward_input(stream(), narrow, y, w); }, {"(4, 2)", "(5, 3)"});
  expect_error([&] { ops::linear_backward_weight(stream(), dw, {}, narrow, x); }, {"(4, 2)"});
}

// The code for processors with bf16 products runs in f32 anywhere.
TEST(NativeProducts, AgreeWithReferences) {
  using namespace ops::cpu;
  if (stream().device().type() != DeviceType::cpu) GTEST_SKIP() << "code of the CPU's back end";
  for (const auto& [n, o, i] : {Sizes{5, 7, 3}, Sizes{33, 17, 65}}) {
    const GuardedTensor x = random_tensor(DType::f32, {n, i}, 1);
    const GuardedTensor w = random_tensor(DType::f32, {o, i}, 2);
    const GuardedTensor bias = random_tensor(DType::f32, {o}, 3);
    const GuardedTensor residual = random_tensor(DType::f32, {n, o}, 4);
    const GuardedTensor y(DType::f32, {n, o});
    const GuardedTensor dx = random_tensor(DType::f32, {n, i}, 5);
    const GuardedTensor dw = random_tensor(DType::f32, {o, i}, 6);
    const Values plain = product(n, o, i, {x.get(), i, 1}, {w.get(), 1, i});
    const auto forward = [&, n = n, o = o, i = i](const float* b, const void* r) {
      native_forward(DType::f32, n, o, i, y.view().data, x.view().data, w.view().data, b, r);
      return y.get();
    };
    const auto* const b = bias.view().as<float>();
    const void* const r = residual.view().data;

    expect_close(forward(nullptr, nullptr), plain, 1e-6, 4e-6);
    expect_close(forward(b, nullptr), sum_of(plain, bias.get()), 1e-6, 4e-6);
    expect_close(forward(nullptr, r), sum_of(plain, residual.get()), 1e-6, 4e-6);
    expect_close(forward(b, r), sum_of(sum_of(plain, bias.get()), residual.get()), 1e-6, 4e-6);

    const Values dy = residual.get();
    const Values input = product(n, i, o, {dy, o, 1}, {w.get(), i, 1});
    const Values grown = sum_of(input, dx.get());
    native_backward_input(DType::f32, n, o, i, dx.view().data, r, w.view().data, true);
    expect_close(dx.get(), grown, 1e-6, 4e-6);
    native_backward_input(DType::f32, n, o, i, dx.view().data, r, w.view().data, false);
    expect_close(dx.get(), input, 1e-6, 4e-6);

    const Values weight = sum_of(product(o, i, n, {dy, 1, o}, {x.get(), i, 1}), dw.get());
    native_backward_weight(DType::f32, n, o, i, dw.view().as<float>(), r, x.view().data);
    expect_close(dw.get(), weight, 1e-6, 4e-6);
  }
}

}  // namespace
}  // namespace trireme
