// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/attention/attention.h"

#include "runtime/ops/common/scratch.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

struct Sizes {
  std::int64_t batch, length, heads, size;
  [[nodiscard]] Shape qkv() const { return {batch, length, 3 * heads * size}; }
  [[nodiscard]] Shape out() const { return {batch, length, heads * size}; }
  [[nodiscard]] Shape lse() const { return {batch, heads, length}; }
  // Element of the packed projection: part 0 queries, 1 keys, 2 values.
  [[nodiscard]] std::size_t at(std::int64_t b, std::int64_t t, int part, std::int64_t h,
                               std::int64_t d) const {
    return static_cast<std::size_t>((((b * length + t) * 3 + part) * heads + h) * size + d);
  }
  [[nodiscard]] std::size_t out_at(std::int64_t b, std::int64_t t, std::int64_t h,
                                   std::int64_t d) const {
    return static_cast<std::size_t>(((b * length + t) * heads + h) * size + d);
  }
};

// Around the blocks of 48 queries and 96 keys, and head sizes off every vector width.
const Sizes all_sizes[] = {{2, 1, 1, 1},   {1, 7, 2, 3},   {2, 33, 2, 16},  {1, 48, 1, 8},
                           {1, 49, 1, 24}, {1, 97, 1, 17}, {1, 150, 2, 64}, {1, 193, 3, 33},
                           {1, 70, 1, 80}, {1, 50, 1, 256}};

struct Reference {
  Values out, lse;
};

Reference reference(const Sizes& s, const Values& qkv) {
  Reference result{Values(static_cast<std::size_t>(s.out().count())),
                   Values(static_cast<std::size_t>(s.lse().count()))};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.length; ++i) {
        Values p(static_cast<std::size_t>(i + 1));
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < s.size; ++d) {
            score += qkv[s.at(b, i, 0, h, d)] * qkv[s.at(b, j, 1, h, d)];
          }
          p[static_cast<std::size_t>(j)] = std::exp(score / std::sqrt(static_cast<double>(s.size)));
          sum += p[static_cast<std::size_t>(j)];
        }
        result.lse[static_cast<std::size_t>((b * s.heads + h) * s.length + i)] = std::log(sum);
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t d = 0; d < s.size; ++d) {
            result.out[s.out_at(b, i, h, d)] +=
                p[static_cast<std::size_t>(j)] / sum * qkv[s.at(b, j, 2, h, d)];
          }
        }
      }
    }
  }
  return result;
}

class Attention : public ::testing::TestWithParam<DType> {
 protected:
  // Two and a half roundings of a value near one.
  [[nodiscard]] double absolute() const {
    return GetParam() == DType::f32 ? 5e-6 : 2.5 * rounding_of(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Types, Attention, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(Attention, ForwardIsTheSoftmaxOverEarlierPositions) {
  for (const Sizes& s : all_sizes) {
    SCOPED_TRACE(s.qkv().to_string());
    const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1, -2.0, 2.0);
    const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
    const Reference expected = reference(s, qkv.get());

    ops::attention_forward(stream(), out, lse, qkv, s.heads);

    expect_close(out.get(), expected.out, 1e-5, absolute());
    expect_close(lse.get(), expected.lse, 1e-5, 5e-6);
  }
}

TEST_P(Attention, RescalesWhenScoresGrowAlongTheKeys) {
  const Sizes s{1, 130, 1, 16};
  const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
  Values values = random_values(s.qkv().count(), 1, GetParam(), -30.0, 30.0);
  for (std::int64_t t = 0; t < s.length; ++t) {
    for (std::int64_t d = 0; d < s.size; ++d) {
      values[s.at(0, t, 0, 0, d)] = 1.0;
      values[s.at(0, t, 1, 0, d)] = static_cast<double>(t) / 2.0;
    }
  }
  const GuardedTensor ramp(GetParam(), s.qkv(), values);

  ops::attention_forward(stream(), out, lse, ramp, s.heads);

  // Neighbouring scores differ by 2: the weights fall by e^-2 a step (bf16 rounds t / 2 exactly).
  const Values v = ramp.get(), o = out.get();
  for (std::int64_t t = 0; t < s.length; ++t) {
    for (std::int64_t d = 0; d < s.size; ++d) {
      double sum = 0, weights = 0;
      for (std::int64_t j = 0; j <= t; ++j) {
        const double weight = std::exp(-2.0 * static_cast<double>(t - j));
        weights += weight;
        sum += weight * v[s.at(0, j, 2, 0, d)];
      }
      const double expected = sum / weights;
      ASSERT_NEAR(o[s.out_at(0, t, 0, d)], expected,
                  GetParam() == DType::f32 ? 2e-4 : 40 * rounding_of(GetParam()));
    }
  }
}

// Gradients by the textbook formulas in fp64; checked against finite differences below.
Values reference_gradient(const Sizes& s, const Values& qkv, const Values& dout) {
  Values gradient(qkv.size());
  const Reference forward = reference(s, qkv);
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.size));
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.length; ++i) {
        double delta = 0;
        for (std::int64_t d = 0; d < s.size; ++d) {
          delta += dout[s.out_at(b, i, h, d)] * forward.out[s.out_at(b, i, h, d)];
        }
        const double lse = forward.lse[static_cast<std::size_t>((b * s.heads + h) * s.length + i)];
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0, slope = 0;
          for (std::int64_t d = 0; d < s.size; ++d) {
            score += qkv[s.at(b, i, 0, h, d)] * qkv[s.at(b, j, 1, h, d)];
            slope += dout[s.out_at(b, i, h, d)] * qkv[s.at(b, j, 2, h, d)];
          }
          const double p = std::exp(score * scale - lse);
          const double ds = p * (slope - delta) * scale;
          for (std::int64_t d = 0; d < s.size; ++d) {
            gradient[s.at(b, i, 0, h, d)] += ds * qkv[s.at(b, j, 1, h, d)];
            gradient[s.at(b, j, 1, h, d)] += ds * qkv[s.at(b, i, 0, h, d)];
            gradient[s.at(b, j, 2, h, d)] += p * dout[s.out_at(b, i, h, d)];
          }
        }
      }
    }
  }
  return gradient;
}

TEST_P(Attention, BackwardMatchesTheReferenceAtEverySize) {
  for (const Sizes& s : all_sizes) {
    SCOPED_TRACE(s.qkv().to_string());
    const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
    const GuardedTensor dout = random_tensor(GetParam(), s.out(), 2);
    const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
    const GuardedTensor dqkv(GetParam(), s.qkv());
    ops::attention_forward(stream(), out, lse, qkv, s.heads);

    ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, s.heads);

    expect_close(dqkv.get(), reference_gradient(s, qkv.get(), dout.get()),
                 rounding_of(GetParam()) * 8, absolute());
  }
}

TEST(AttentionGradients, AgreeWithFiniteDifferences) {
  const Sizes s{1, 6, 2, 3};
  const GuardedTensor qkv = random_tensor(DType::f32, s.qkv(), 1, -2.0, 2.0);
  const GuardedTensor dout = random_tensor(DType::f32, s.out(), 2);
  const GuardedTensor out(DType::f32, s.out()), lse(DType::f32, s.lse());
  const GuardedTensor dqkv(DType::f32, s.qkv());
  const Values slope = dout.get();

  ops::attention_forward(stream(), out, lse, qkv, s.heads);
  ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, s.heads);

  const Values numeric = numeric_gradient(qkv.get(), [&](const Values& values) {
    const Reference forward = reference(s, values);
    double sum = 0;
    for (std::size_t i = 0; i < slope.size(); ++i)
      sum += slope[i] * forward.out[i];
    return sum;
  });
  expect_close(dqkv.get(), numeric, 1e-5, 2e-6);
}

TEST_P(Attention, DoesNotLookAhead) {
  const Sizes s{1, 120, 2, 8};
  const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
  const GuardedTensor changed(GetParam(), s.qkv(), qkv.get());
  const std::int64_t last = s.length - 1;
  Values values = changed.get();
  for (std::size_t i = s.at(0, last, 0, 0, 0); i < values.size(); ++i)
    values[i] = 1e4;
  const GuardedTensor later(GetParam(), s.qkv(), values);
  const GuardedTensor a(GetParam(), s.out()), b(GetParam(), s.out()), lse(DType::f32, s.lse());

  ops::attention_forward(stream(), a, lse, qkv, s.heads);
  ops::attention_forward(stream(), b, lse, later, s.heads);

  std::vector<unsigned char> before = a.raw(), after = b.raw();
  const std::size_t kept =
      before.size() / static_cast<std::size_t>(s.length) * static_cast<std::size_t>(last);
  before.resize(kept);
  after.resize(kept);
  EXPECT_EQ(before, after);
}

TEST_P(Attention, GivesTheSameBitsEachTimeAndAllocatesNoMoreScratch) {
  const Sizes s{2, 150, 2, 32};
  const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
  const GuardedTensor dout = random_tensor(GetParam(), s.out(), 2);
  const auto run = [&] {
    const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
    const GuardedTensor dqkv(GetParam(), s.qkv());
    ops::attention_forward(stream(), out, lse, qkv, s.heads);
    ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, s.heads);
    return std::tuple(out.raw(), lse.raw(), dqkv.raw());
  };

  const auto first = run();
  const std::size_t allocations = ops::cpu::scratch_allocations();

  EXPECT_EQ(run(), first);
  EXPECT_EQ(ops::cpu::scratch_allocations(), allocations);
}

TEST_P(Attention, RefusesOperandsThatDoNotFit) {
  const GuardedTensor qkv(GetParam(), {2, 5, 24});
  const GuardedTensor out(GetParam(), {2, 5, 8});
  const GuardedTensor wide(GetParam(), {2, 5, 9});
  const GuardedTensor lse(DType::f32, {2, 2, 5});
  const GuardedTensor turned(DType::f32, {2, 5, 2});

  expect_error([&] { ops::attention_forward(stream(), out, lse, qkv, 3); }, {"(2, 5, 24)", "3"});
  expect_error([&] { ops::attention_forward(stream(), wide, lse, qkv, 2); },
               {"(2, 5, 9)", "(2, 5, 8)"});
  expect_error([&] { ops::attention_forward(stream(), out, turned, qkv, 2); },
               {"(2, 5, 2)", "(2, 2, 5)"});
  expect_error([&] { ops::attention_backward(stream(), qkv, out, out, lse, qkv, 2); },
               {"dqkv", "memory"});
}

}  // namespace
}  // namespace trireme
