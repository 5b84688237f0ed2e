// SPDX-License-Identifier: Apache-2.0
// RMS norm and rotary positions: a Llama's ops in addition to a GPT's.
#include <numeric>

#include "runtime/ops/elementwise/rope.h"
#include "runtime/ops/elementwise/rope_math.h"
#include "runtime/ops/norm/row_norm.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class RmsNorm : public TypedOp {};
class Rope : public TypedOp {};
const auto all_types = ::testing::Values(DType::f32, DType::bf16, DType::f16);
INSTANTIATE_TEST_SUITE_P(Types, RmsNorm, all_types, dtype_label);
INSTANTIATE_TEST_SUITE_P(Types, Rope, all_types, dtype_label);

constexpr float epsilon = 1e-5F;

double inner(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Normalised {
  Values y, rstd;
};
Normalised rms_norm(const Values& x, const Values& gamma) {
  const std::size_t columns = gamma.size(), rows = x.size() / columns;
  Normalised result{Values(x.size()), Values(rows)};
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (std::size_t c = 0; c < columns; ++c)
      squares += x[r * columns + c] * x[r * columns + c];
    result.rstd[r] = 1.0 / std::sqrt(squares / static_cast<double>(columns) + 1e-5);
    for (std::size_t c = 0; c < columns; ++c)
      result.y[r * columns + c] = x[r * columns + c] * result.rstd[r] * gamma[c];
  }
  return result;
}

// Columns of every way in which threads share a row, whole packs and not.
TEST_P(RmsNorm, ForwardScalesEachRowAndKeepsItsStatistic) {
  for (const std::int64_t columns : {1, 17, 256, 1023, 1032, 4100, 8200}) {
    const Shape shape{3, columns};
    const GuardedTensor x = random_tensor(GetParam(), shape, 1, 0.5, 3.0);
    const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
    const GuardedTensor y(GetParam(), shape), rstd(DType::f32, {3}), same(DType::f32, {3});
    const OffsetTensor moved(GetParam(), shape, x.get()), moved_y(GetParam(), shape);
    const Normalised expected = rms_norm(x.get(), gamma.get());

    ops::rms_norm_forward(stream(), y, rstd, x, gamma, epsilon);
    ops::rms_norm_forward(stream(), moved_y.view, same, moved.view, gamma, epsilon);

    expect_close(y.get(), expected.y, relative() + 1e-6, 1e-6);
    expect_close(rstd.get(), expected.rstd, 2e-6, 0.0);
    expect_close(moved_y.get(), expected.y, relative() + 1e-6, 1e-6);
    if (stream().device().type() == DeviceType::cuda) {
      EXPECT_EQ(moved_y.get(), y.get());
    }
  }
}

TEST_P(RmsNorm, BackwardAgreesWithFiniteDifferences) {
  constexpr std::int64_t rows = 7, columns = 19;
  const GuardedTensor x = random_tensor(GetParam(), {rows, columns}, 1);
  const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
  const GuardedTensor dy = random_tensor(GetParam(), {rows, columns}, 3);
  const GuardedTensor y(GetParam(), {rows, columns}), dx(GetParam(), {rows, columns});
  const GuardedTensor rstd(DType::f32, {rows}), dgamma(DType::f32, {columns}, Values(columns, 0.5));
  const Values slope = dy.get(), xv = x.get(), gv = gamma.get();
  Values expected_gamma =
      numeric_gradient(gv, [&](const Values& v) { return inner(slope, rms_norm(xv, v).y); });
  for (double& value : expected_gamma)
    value += 0.5;

  ops::rms_norm_forward(stream(), y, rstd, x, gamma, epsilon);
  ops::rms_norm_backward(stream(), dx, dgamma, dy, x, gamma, rstd, false);

  expect_close(
      dx.get(),
      numeric_gradient(xv, [&](const Values& v) { return inner(slope, rms_norm(v, gv).y); }),
      relative() + 1e-5, 1e-5);
  expect_close(dgamma.get(), expected_gamma, 1e-5, 1e-5);
}

TEST_P(RmsNorm, BackwardOfLongAndOfManyRowsFollowsTheFormula) {
  for (const auto& [rows, columns] :
       {std::pair{600, 40}, {9, 1031}, {140, 2056}, {6, 8192}, {40, 8200}}) {
    const Shape shape{rows, columns};
    const GuardedTensor x = random_tensor(GetParam(), shape, 1);
    const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
    const GuardedTensor dy = random_tensor(GetParam(), shape, 3);
    const GuardedTensor y(GetParam(), shape), dx = random_tensor(GetParam(), shape, 4);
    const GuardedTensor rstd(DType::f32, {rows});
    const auto width = static_cast<std::size_t>(columns);
    const GuardedTensor dgamma(DType::f32, {columns}, Values(width));
    const Values xv = x.get(), gv = gamma.get(), slope = dy.get();
    const Normalised forward = rms_norm(xv, gv);
    Values expected = dx.get(), expected_gamma(width);
    for (std::size_t r = 0; r < forward.rstd.size(); ++r) {
      const double inverse = forward.rstd[r];
      double sum_gn = 0;
      for (std::size_t c = 0; c < width; ++c) {
        const std::size_t i = r * width + c;
        expected_gamma[c] += slope[i] * xv[i] * inverse;
        sum_gn += slope[i] * gv[c] * xv[i] * inverse;
      }
      for (std::size_t c = 0; c < width; ++c) {
        const std::size_t i = r * width + c;
        expected[i] +=
            inverse * (slope[i] * gv[c] - xv[i] * inverse * sum_gn / static_cast<double>(columns));
      }
    }

    ops::rms_norm_forward(stream(), y, rstd, x, gamma, epsilon);
    ops::rms_norm_backward(stream(), dx, dgamma, dy, x, gamma, rstd, true);

    expect_close(dx.get(), expected, relative() + 1e-5, 1e-5);
    expect_close(dgamma.get(), expected_gamma, 1e-5, sum_rounding(rows));
  }
}

TEST_P(RmsNorm, BackwardInTwoPartsHasTheBitsOfTheWhole) {
  for (const auto& [rows, columns] : {std::pair{70, 37}, {5, 1040}, {3, 8200}}) {
    for (const bool accumulate : {false, true}) {
      const Shape shape{rows, columns};
      const GuardedTensor x = random_tensor(GetParam(), shape, 1);
      const GuardedTensor gamma = random_tensor(DType::f32, {columns}, 2);
      const GuardedTensor dy = random_tensor(GetParam(), shape, 3);
      const GuardedTensor y(GetParam(), shape), rstd(DType::f32, {rows});
      const auto make_dx = [&] { return random_tensor(GetParam(), shape, 4); };
      const auto make_gamma = [&] { return random_tensor(DType::f32, {columns}, 5); };
      const GuardedTensor dx = make_dx(), dx_alone = make_dx();
      const GuardedTensor dgamma = make_gamma(), dgamma_alone = make_gamma();
      ops::rms_norm_forward(stream(), y, rstd, x, gamma, epsilon);

      ops::rms_norm_backward(stream(), dx, dgamma, dy, x, gamma, rstd, accumulate);
      ops::rms_norm_backward(stream(), dx_alone, {}, dy, x, gamma, rstd, accumulate);
      ops::rms_norm_backward(stream(), {}, dgamma_alone, dy, x, gamma, rstd, accumulate);

      EXPECT_NE(dx.raw(), make_dx().raw());
      EXPECT_NE(dgamma.raw(), make_gamma().raw());
      EXPECT_EQ(dx_alone.raw(), dx.raw());
      EXPECT_EQ(dgamma_alone.raw(), dgamma.raw());
    }
  }
}

TEST_P(RmsNorm, AddsTheOffsetToItsScale) {
  for (const std::int64_t columns : {19, 512, 9000}) {
    const Shape shape{5, columns}, scale{columns};
    const GuardedTensor x = random_tensor(GetParam(), shape, 1);
    const GuardedTensor dy = random_tensor(GetParam(), shape, 3);
    const GuardedTensor gamma = random_tensor(DType::f32, scale, 2);
    Values above = gamma.get();
    for (double& value : above)
      value = static_cast<double>(1.0F + static_cast<float>(value));
    const GuardedTensor whole(DType::f32, scale, above);
    const GuardedTensor y(GetParam(), shape), dx(GetParam(), shape), rstd(DType::f32, {5});
    const GuardedTensor same_y(GetParam(), shape), same_dx(GetParam(), shape);
    const GuardedTensor dgamma(DType::f32, scale, Values(above.size(), 0.0));
    const GuardedTensor same_dgamma(DType::f32, scale, Values(above.size(), 0.0));

    ops::rms_norm_forward(stream(), y, rstd, x, gamma, epsilon, {}, 1.0F);
    ops::rms_norm_backward(stream(), dx, dgamma, dy, x, gamma, rstd, false, {}, 1.0F);
    ops::rms_norm_forward(stream(), same_y, rstd, x, whole, epsilon);
    ops::rms_norm_backward(stream(), same_dx, same_dgamma, dy, x, whole, rstd, false);

    EXPECT_EQ(y.raw(), same_y.raw());
    EXPECT_EQ(dx.raw(), same_dx.raw());
    EXPECT_EQ(dgamma.raw(), same_dgamma.raw());
  }
}

TEST_P(RmsNorm, RefusesOperandsThatDoNotFit) {
  const GuardedTensor x(GetParam(), {4, 6}), y(GetParam(), {4, 6}), narrow(DType::f32, {5});
  const GuardedTensor gamma(DType::f32, {6}), rstd(DType::f32, {4}), few(DType::f32, {3});
  expect_error([&] { ops::rms_norm_forward(stream(), y, rstd, x, narrow, epsilon); },
               {"gamma", "(5)", "(6)"});
  expect_error([&] { ops::rms_norm_forward(stream(), y, few, x, gamma, epsilon); }, {"rstd", "4"});
  expect_error([&] { ops::rms_norm_backward(stream(), {}, {}, y, x, gamma, rstd, false); },
               {"neither dx nor dgamma"});
  expect_error([&] { ops::rms_norm_backward(stream(), x, gamma, y, x, gamma, rstd, false); },
               {"dx", "memory"});
}

Values rotated(const Values& x, const Shape& shape, const ops::RopeOptions& options,
               double direction) {
  const auto size = static_cast<std::size_t>(shape[2] / (options.heads + 2 * options.kv_heads));
  const auto width = static_cast<std::size_t>(shape[2]);
  const auto turning = static_cast<std::size_t>(options.heads + options.kv_heads) * size;
  Values y = x;
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    const auto t = static_cast<double>(row % static_cast<std::size_t>(shape[1]));
    for (std::size_t head = 0; head < turning; head += size) {
      for (std::size_t i = 0; i < size / 2; ++i) {
        const double angle =
            direction * t *
            std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(size));
        const std::size_t a = row * width + head + i, b = a + size / 2;
        y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        y[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
      }
    }
  }
  return y;
}

TEST_P(Rope, TurnsQueriesAndKeysByTheirPositionAndLeavesValues) {
  struct Case {
    std::int64_t batch, length, heads, kv_heads, size;
    double base;
  };
  for (const Case& c : {Case{2, 5, 1, 1, 2, 10000.0}, Case{1, 33, 4, 2, 16, 10000.0},
                        Case{2, 7, 3, 1, 10, 500000.0}, Case{1, 2049, 2, 1, 64, 10000.0}}) {
    const Shape shape{c.batch, c.length, (c.heads + 2 * c.kv_heads) * c.size};
    const ops::RopeOptions options{.heads = c.heads, .kv_heads = c.kv_heads, .base = c.base};
    const GuardedTensor qkv = random_tensor(GetParam(), shape, 1);
    const Values before = qkv.get();
    const OffsetTensor moved(GetParam(), shape, before);

    ops::rope_forward(stream(), qkv, options);
    ops::rope_forward(stream(), moved.view, options);

    expect_close(qkv.get(), rotated(before, shape, options, 1.0), relative(), 1e-6 + relative());
    EXPECT_EQ(moved.get(), qkv.get());
  }
}

// The map is linear: its gradient is its transpose, <dy, f(x)> = <f'(dy), x>.
TEST_P(Rope, BackwardAgreesWithFiniteDifferences) {
  const Shape shape{2, 3, 5 * 6};
  const ops::RopeOptions options{.heads = 3, .kv_heads = 1, .base = 100.0};
  const GuardedTensor dqkv = random_tensor(GetParam(), shape, 2);
  const Values slope = dqkv.get();
  const Values at = random_values(shape.count(), 1, GetParam());

  ops::rope_backward(stream(), dqkv, options);

  expect_close(
      dqkv.get(),
      numeric_gradient(
          at, [&](const Values& x) { return inner(slope, rotated(x, shape, options, 1.0)); }),
      relative(), 1e-6 + relative());
}

// The published formulas, in f64: the frequency of pair i of `pairs`.
double stretched(const ops::RopeOptions& o, double i, double pairs) {
  const double pi = std::acos(-1.0), plain = std::pow(o.base, -i / pairs);
  const auto context = static_cast<double>(o.original_context);
  if (o.scaling == ops::RopeScaling::linear) return plain / o.factor;
  if (o.scaling == ops::RopeScaling::llama3) {
    const double wave = 2 * pi / plain;
    if (wave < context / o.high_freq_factor) return plain;
    if (wave > context / o.low_freq_factor) return plain / o.factor;
    const double smooth =
        (context / wave - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
    return (1 - smooth) * plain / o.factor + smooth * plain;
  }
  const auto dimension = [&](double turns) {
    return 2 * pairs * std::log(context / (turns * 2 * pi)) / (2 * std::log(o.base));
  };
  double low = dimension(o.high_freq_factor), high = dimension(o.low_freq_factor);
  if (o.whole_pairs) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, 2 * pairs - 1);
  const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
  return plain / o.factor * ramp + plain * (1 - ramp);
}

TEST_P(Rope, StretchesItsAnglesAsPublished) {
  using enum ops::RopeScaling;
  const ops::RopeOptions cases[] = {
      {.heads = 2, .kv_heads = 1, .base = 500.0, .scaling = linear, .factor = 4},
      {.heads = 2,
       .kv_heads = 1,
       .base = 5e5,
       .scaling = llama3,
       .factor = 8,
       .original_context = 64},
      {.heads = 2,
       .kv_heads = 1,
       .base = 1e4,
       .scaling = yarn,
       .factor = 4,
       .low_freq_factor = 1,
       .high_freq_factor = 32,
       .original_context = 256},
      {.heads = 2,
       .kv_heads = 1,
       .base = 1e4,
       .scaling = yarn,
       .factor = 8,
       .low_freq_factor = 1,
       .high_freq_factor = 32,
       .original_context = 512,
       .whole_pairs = false}};
  constexpr std::int64_t length = 40, size = 32;
  const Shape shape{1, length, 4 * size};
  for (const ops::RopeOptions& options : cases) {
    const GuardedTensor qkv = random_tensor(GetParam(), shape, 1);
    Values expected = qkv.get();
    const double magnitude = options.scaling == yarn ? 0.1 * std::log(options.factor) + 1.0 : 1.0;
    for (std::size_t t = 0; t < length; ++t) {
      for (std::size_t head = 0; head < 3; ++head) {
        for (std::size_t i = 0; i < size / 2; ++i) {
          const double angle =
              static_cast<double>(t) * stretched(options, static_cast<double>(i), size / 2.0);
          double& first = expected[(t * 4 + head) * size + i];
          double& second = expected[(t * 4 + head) * size + i + size / 2];
          const double a = first, b = second;
          first = magnitude * (a * std::cos(angle) - b * std::sin(angle));
          second = magnitude * (b * std::cos(angle) + a * std::sin(angle));
        }
      }
    }

    ops::rope_forward(stream(), qkv, options);

    expect_close(qkv.get(), expected, relative(), 1e-6 + relative());
  }
}

// Of gpt-oss, as transformers 5.24 computes them.
TEST(RopeAngles, OfYarnWithFractionalPairsAreThoseOfTransformers) {
  const ops::RopeAngles angles({.base = 150000,
                                .scaling = ops::RopeScaling::yarn,
                                .factor = 32,
                                .low_freq_factor = 1,
                                .high_freq_factor = 32,
                                .original_context = 4096,
                                .whole_pairs = false},
                               32);

  EXPECT_NEAR(angles.magnitude, 1.3465735902799727, 1e-12);
  for (const auto& [pair, frequency] : {std::pair{0, 1.0},
                                        {5, 0.155322984},
                                        {8, 0.0508132726},
                                        {9, 0.0317056961},
                                        {12, 0.00679495931},
                                        {15, 0.00105260219},
                                        {17, 0.000129318694},
                                        {18, 3.83088118e-05},
                                        {25, 2.82506676e-06},
                                        {31, 3.0235114e-07}})
    EXPECT_NEAR(angles.frequency(pair) / frequency, 1, 1e-6) << pair;
}

TEST_P(Rope, RefusesSizesThatDoNotFit) {
  const GuardedTensor qkv(GetParam(), {2, 3, 24});
  const auto run = [&](const ops::RopeOptions& options) {
    ops::rope_forward(stream(), qkv, options);
  };
  expect_error([&] { run({.heads = 3, .kv_heads = 2}); }, {"3 heads", "2 key heads"});
  expect_error([&] { run({.heads = 6, .kv_heads = 1}); }, {"(2, 3, 24)", "8 heads", "even"});
  expect_error([&] { run({.heads = 2, .kv_heads = 1, .base = 1.0}); }, {"base"});
  ops::RopeOptions options{.heads = 2, .kv_heads = 1, .scaling = ops::RopeScaling::linear};
  options.factor = 0.5;
  expect_error([&] { run(options); }, {"factor of 0.5"});
  options.factor = 2;
  options.scaling = ops::RopeScaling::yarn;
  expect_error([&] { run(options); }, {"original context of 0"});
}

}  // namespace
}  // namespace trireme
