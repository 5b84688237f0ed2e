// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/attention/attention.h"

#include "runtime/ops/common/scratch.h"
#include "runtime/ops/elementwise/rope.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

struct Sizes {
  std::int64_t batch, length, heads, size;
  std::int64_t kv_heads = heads;
  bool causal = true;
  std::int64_t window = 0;
  double soft_cap = 0;
  std::vector<std::int64_t> documents{};  // starts in the first sample, after 0

  [[nodiscard]] ops::AttentionOptions options() const {
    return {heads, kv_heads, causal, window, soft_cap};
  }
  // In sample b all begin b positions later.
  [[nodiscard]] std::int64_t start(std::int64_t b, std::int64_t t) const {
    std::int64_t last = 0;
    for (const std::int64_t begin : documents)
      last = begin + b <= t ? begin + b : last;
    return last;
  }
  [[nodiscard]] GuardedTensor starts() const {
    Values values;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t t = 0; t < length; ++t)
        values.push_back(static_cast<double>(start(b, t)));
    }
    return {DType::i32, {batch, length}, values};
  }
  [[nodiscard]] std::string name() const {
    return fmt::format("{} keys of {} heads, {}, window {}, cap {}, {} documents",
                       qkv().to_string(), kv_heads, causal ? "causal" : "full", window, soft_cap,
                       documents.size() + 1);
  }
  [[nodiscard]] Shape qkv() const { return {batch, length, (heads + 2 * kv_heads) * size}; }
  [[nodiscard]] Shape out() const { return {batch, length, heads * size}; }
  [[nodiscard]] Shape lse() const { return {batch, heads, length}; }
  // Element of the packed projection: part 0 queries, 1 keys, 2 values; h counts heads of queries.
  [[nodiscard]] std::size_t at(std::int64_t b, std::int64_t t, int part, std::int64_t h,
                               std::int64_t d) const {
    const std::int64_t key_head = h / (heads / kv_heads);
    const std::int64_t place = part == 0 ? h : heads + (part - 1) * kv_heads + key_head;
    return static_cast<std::size_t>(((b * length + t) * (heads + 2 * kv_heads) + place) * size + d);
  }
  [[nodiscard]] bool sees(std::int64_t b, std::int64_t query, std::int64_t key) const {
    return (!causal || key <= query) && (window == 0 || key > query - window) &&
           key >= start(b, query) && start(b, key) <= start(b, query);
  }
  // The score before the softmax, and its derivative by the product of query and key.
  [[nodiscard]] std::pair<double, double> score(double product) const {
    const double scale = 1.0 / std::sqrt(static_cast<double>(size));
    if (soft_cap == 0) return {product * scale, scale};
    const double share = std::tanh(product * scale / soft_cap);
    return {soft_cap * share, scale * (1 - share * share)};
  }
  [[nodiscard]] std::size_t out_at(std::int64_t b, std::int64_t t, std::int64_t h,
                                   std::int64_t d) const {
    return static_cast<std::size_t>(((b * length + t) * heads + h) * size + d);
  }
};

// Around the blocks of 48 queries and 96 keys, and head sizes off every vector width.
const Sizes all_sizes[] = {{2, 1, 1, 1},
                           {1, 7, 2, 3},
                           {2, 33, 2, 16},
                           {1, 48, 1, 8},
                           {1, 49, 1, 24},
                           {1, 97, 1, 17},
                           {1, 150, 2, 64},
                           {1, 193, 3, 33},
                           {1, 70, 1, 80},
                           {1, 50, 1, 256},
                           // Keys that queries share.
                           {.batch = 2, .length = 33, .heads = 4, .size = 16, .kv_heads = 2},
                           {.batch = 1, .length = 150, .heads = 3, .size = 20, .kv_heads = 1},
                           {.batch = 1, .length = 1, .heads = 6, .size = 5, .kv_heads = 3},
                           // All keys.
                           {.batch = 2, .length = 5, .heads = 1, .size = 3, .causal = false},
                           {2, 131, 2, 24, 1, false},
                           {1, 96, 1, 8, 1, false, 0, 1.5},
                           // Windows: of one key, inside a tile, across blocks, longer than all.
                           {1, 130, 1, 16, 1, true, 1},
                           {2, 100, 2, 17, 1, true, 7},
                           {1, 250, 1, 32, 1, true, 97},
                           {1, 193, 2, 8, 2, true, 48},
                           {1, 60, 1, 8, 1, true, 200},
                           // Soft caps.
                           {1, 70, 2, 16, 2, true, 0, 0.5},
                           {1, 150, 4, 12, 2, true, 33, 2.0},
                           {1, 40, 1, 64, 1, true, 0, 50.0},
                           // Documents: short ones, across blocks, at their borders, with the rest.
                           {2, 40, 2, 16, 2, true, 0, 0, {1, 2, 7, 30}},
                           {1, 300, 1, 12, 1, true, 0, 0, {95, 96, 97, 250}},
                           {2, 200, 4, 24, 2, true, 0, 0, {48, 144, 180}},
                           {1, 193, 2, 8, 2, true, 30, 0, {20, 100, 101, 150}},
                           {2, 150, 4, 20, 1, true, 40, 1.5, {60, 99}},
                           // Padding, and several documents, of which all keys are seen.
                           {2, 40, 2, 16, 2, false, 0, 0, {1, 2, 7, 30}},
                           {1, 300, 1, 12, 1, false, 0, 0, {95, 96, 97, 250}},
                           {2, 200, 4, 24, 2, false, 0, 1.5, {144}}};

// The options of `s` with their pointees.
struct CaseOptions {
  GuardedTensor starts;
  ops::AttentionOptions options;

  explicit CaseOptions(const Sizes& s) : starts(s.starts()), options(s.options()) {
    if (!s.documents.empty()) options.document_starts = starts.view();
  }
};

struct Reference {
  Values out, lse;
};

Reference reference(const Sizes& s, const Values& qkv) {
  Reference result{Values(static_cast<std::size_t>(s.out().count())),
                   Values(static_cast<std::size_t>(s.lse().count()))};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.length; ++i) {
        Values p(static_cast<std::size_t>(s.length));
        double sum = 0;
        for (std::int64_t j = 0; j < s.length; ++j) {
          if (!s.sees(b, i, j)) continue;
          double product = 0;
          for (std::int64_t d = 0; d < s.size; ++d) {
            product += qkv[s.at(b, i, 0, h, d)] * qkv[s.at(b, j, 1, h, d)];
          }
          p[static_cast<std::size_t>(j)] = std::exp(s.score(product).first);
          sum += p[static_cast<std::size_t>(j)];
        }
        result.lse[static_cast<std::size_t>((b * s.heads + h) * s.length + i)] = std::log(sum);
        for (std::int64_t j = 0; j < s.length; ++j) {
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

TEST_P(Attention, ForwardIsTheSoftmaxOverTheKeysSeen) {
  for (const Sizes& s : all_sizes) {
    SCOPED_TRACE(s.name());
    const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1, -2.0, 2.0);
    const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
    const Reference expected = reference(s, qkv.get());
    const CaseOptions with(s);

    ops::attention_forward(stream(), out, lse, qkv, with.options);

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

  ops::attention_forward(stream(), out, lse, ramp, s.options());

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
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.length; ++i) {
        double delta = 0;
        for (std::int64_t d = 0; d < s.size; ++d) {
          delta += dout[s.out_at(b, i, h, d)] * forward.out[s.out_at(b, i, h, d)];
        }
        const double lse = forward.lse[static_cast<std::size_t>((b * s.heads + h) * s.length + i)];
        for (std::int64_t j = 0; j < s.length; ++j) {
          if (!s.sees(b, i, j)) continue;
          double product = 0, slope = 0;
          for (std::int64_t d = 0; d < s.size; ++d) {
            product += qkv[s.at(b, i, 0, h, d)] * qkv[s.at(b, j, 1, h, d)];
            slope += dout[s.out_at(b, i, h, d)] * qkv[s.at(b, j, 2, h, d)];
          }
          const auto [score, score_slope] = s.score(product);
          const double p = std::exp(score - lse);
          const double ds = p * (slope - delta) * score_slope;
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
    SCOPED_TRACE(s.name());
    const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
    const GuardedTensor dout = random_tensor(GetParam(), s.out(), 2);
    const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
    const GuardedTensor dqkv(GetParam(), s.qkv());
    const CaseOptions with(s);
    ops::attention_forward(stream(), out, lse, qkv, with.options);

    ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, with.options);

    expect_close(dqkv.get(), reference_gradient(s, qkv.get(), dout.get()),
                 rounding_of(GetParam()) * 8, absolute());
  }
}

class AttentionGradients : public ::testing::TestWithParam<Sizes> {};
INSTANTIATE_TEST_SUITE_P(Sizes, AttentionGradients,
                         ::testing::Values(Sizes{1, 6, 2, 3}, Sizes{1, 5, 4, 2, 2},
                                           Sizes{2, 4, 2, 2, 1, false},
                                           Sizes{1, 7, 2, 2, 2, true, 3},
                                           Sizes{1, 6, 2, 3, 1, true, 4, 0.7},
                                           Sizes{2, 7, 2, 2, 1, true, 3, 0, {1, 4}}),
                         [](const auto& info) { return fmt::format("case_{}", info.index); });

TEST_P(AttentionGradients, AgreeWithFiniteDifferences) {
  const Sizes& s = GetParam();
  const GuardedTensor qkv = random_tensor(DType::f32, s.qkv(), 1, -2.0, 2.0);
  const GuardedTensor dout = random_tensor(DType::f32, s.out(), 2);
  const GuardedTensor out(DType::f32, s.out()), lse(DType::f32, s.lse());
  const GuardedTensor dqkv(DType::f32, s.qkv());
  const Values slope = dout.get();
  const CaseOptions with(s);

  ops::attention_forward(stream(), out, lse, qkv, with.options);
  ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, with.options);

  const Values numeric = numeric_gradient(qkv.get(), [&](const Values& values) {
    const Reference forward = reference(s, values);
    double sum = 0;
    for (std::size_t i = 0; i < slope.size(); ++i)
      sum += slope[i] * forward.out[i];
    return sum;
  });
  expect_close(dqkv.get(), numeric, 1e-5, 2e-6);
}

// Twice the scale equals twice the queries in all bits, except for subnormals.
TEST_P(Attention, TakesAnotherScaleOfItsScores) {
  const Sizes s{2, 70, 2, 16};
  const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
  Values doubled = qkv.get();
  for (std::size_t i = 0; i < doubled.size(); ++i) {
    if (i % (3 * 2 * 16) < 2 * 16) doubled[i] *= 2;
  }
  const GuardedTensor wide(GetParam(), s.qkv(), doubled),
      dout = random_tensor(GetParam(), s.out(), 2);
  const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse()), dqkv(GetParam(), s.qkv());
  const GuardedTensor other(GetParam(), s.out()), d_wide(GetParam(), s.qkv());
  ops::AttentionOptions options = s.options();
  options.scale = 0.5;  // of heads of 16: 1/4

  ops::attention_forward(stream(), out, lse, qkv, options);
  ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, options);
  ops::attention_forward(stream(), other, lse, wide, s.options());
  ops::attention_backward(stream(), d_wide, dout, other, lse, wide, s.options());

  EXPECT_EQ(out.raw(), other.raw());
  Values gradient = d_wide.get();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if (i % (3 * 2 * 16) < 2 * 16) gradient[i] *= 2;
  }
  expect_close(dqkv.get(), gradient, 0, 1.2e-7);  // of subnormal f16
}

// A query's result does not depend on keys that it does not attend to.
TEST_P(Attention, AttendsOnlyInsideItsWindow) {
  const Sizes s{1, 150, 2, 8, 1, true, 20};
  const std::int64_t changed = 70, unaffected = changed + s.window;
  const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
  Values values = qkv.get();
  for (std::size_t i = 0; i < s.at(0, changed + 1, 0, 0, 0); ++i)
    values[i] = 1e4;
  const GuardedTensor other(GetParam(), s.qkv(), values);
  const GuardedTensor a(GetParam(), s.out()), b(GetParam(), s.out()), lse(DType::f32, s.lse());

  ops::attention_forward(stream(), a, lse, qkv, s.options());
  ops::attention_forward(stream(), b, lse, other, s.options());

  const Values before = a.get(), after = b.get();
  const std::size_t first = s.out_at(0, unaffected, 0, 0), last = first - 1;
  EXPECT_EQ(Values(before.begin() + static_cast<std::ptrdiff_t>(first), before.end()),
            Values(after.begin() + static_cast<std::ptrdiff_t>(first), after.end()));
  EXPECT_NE(before[last], after[last]);
}

// The results and gradients of a document do not depend on other documents.
TEST_P(Attention, AttendsOnlyInsideItsDocument) {
  for (const bool causal : {true, false}) {
    const Sizes s{1, 150, 2, 8, 2, causal, 0, 0, {70, 120}};
    const CaseOptions with(s);
    const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
    const GuardedTensor dout = random_tensor(GetParam(), s.out(), 2);
    const auto run = [&](double others) {
      Values values = qkv.get(), slopes = dout.get();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t t = i / 48;
        if (others != 0 && (t < 70 || t >= 120)) values[i] = others;
        if (others != 0 && (t < 70 || t >= 120)) slopes[i / 3] = -others;
      }
      const GuardedTensor x(GetParam(), s.qkv(), values), dy(GetParam(), s.out(), slopes);
      const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
      const GuardedTensor dqkv(GetParam(), s.qkv());
      ops::attention_forward(stream(), out, lse, x, with.options);
      ops::attention_backward(stream(), dqkv, dy, out, lse, x, with.options);
      const Values y = out.get(), dx = dqkv.get();
      return std::pair(Values(y.begin() + 70 * 16, y.begin() + 120 * 16),
                       Values(dx.begin() + 70 * 48, dx.begin() + 120 * 48));
    };

    EXPECT_EQ(run(0), run(30));
  }
}

TEST_P(Attention, RefusesDocumentsThatDoNotFit) {
  const Sizes s{1, 10, 1, 8, 1, true, 0, 0, {4}};
  const Sizes longer{1, 11, 1, 8};
  const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
  const GuardedTensor out(GetParam(), s.out()), lse(DType::f32, s.lse());
  CaseOptions too_long(s);
  const GuardedTensor starts = longer.starts();
  too_long.options.document_starts = starts.view();

  expect_error([&] { ops::attention_forward(stream(), out, lse, qkv, too_long.options); },
               {"document_starts", "(1, 11)", "(1, 10)"});
  const GuardedTensor bounds(DType::i32, {3}, {0, 4, 10});
  ops::AttentionOptions alone = s.options();
  alone.document_bounds = bounds.view();
  expect_error([&] { ops::attention_forward(stream(), out, lse, qkv, alone); },
               {"bounds of documents", "their starts"});
}

TEST_P(Attention, OfRepeatedKeysHasTheResultOfSharedOnes) {
  const Sizes shared{2, 100, 4, 16, 2}, apart{2, 100, 4, 16, 4};
  const GuardedTensor qkv = random_tensor(GetParam(), shared.qkv(), 1);
  const Values values = qkv.get();
  Values repeated(static_cast<std::size_t>(apart.qkv().count()));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < apart.length; ++t) {
      for (int part = 0; part < 3; ++part) {
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t d = 0; d < 16; ++d)
            repeated[apart.at(b, t, part, h, d)] = values[shared.at(b, t, part, h, d)];
        }
      }
    }
  }
  const GuardedTensor wide(GetParam(), apart.qkv(), repeated);
  const GuardedTensor a(GetParam(), shared.out()), b(GetParam(), shared.out());
  const GuardedTensor lse(DType::f32, shared.lse());

  ops::attention_forward(stream(), a, lse, qkv, shared.options());
  ops::attention_forward(stream(), b, lse, wide, apart.options());

  EXPECT_EQ(a.raw(), b.raw());
}

TEST_P(Attention, AttendsToNoFutureToken) {
  const Sizes s{1, 120, 2, 8};
  const GuardedTensor qkv = random_tensor(GetParam(), s.qkv(), 1);
  const GuardedTensor changed(GetParam(), s.qkv(), qkv.get());
  const std::int64_t last = s.length - 1;
  Values values = changed.get();
  for (std::size_t i = s.at(0, last, 0, 0, 0); i < values.size(); ++i)
    values[i] = 1e4;
  const GuardedTensor later(GetParam(), s.qkv(), values);
  const GuardedTensor a(GetParam(), s.out()), b(GetParam(), s.out()), lse(DType::f32, s.lse());

  ops::attention_forward(stream(), a, lse, qkv, s.options());
  ops::attention_forward(stream(), b, lse, later, s.options());

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
    ops::attention_forward(stream(), out, lse, qkv, s.options());
    ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, s.options());
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

  const ops::AttentionOptions two{.heads = 2, .kv_heads = 2};
  const auto forward = [&](const Tensor& to, const Tensor& sums,
                           const ops::AttentionOptions& with) {
    ops::attention_forward(stream(), to, sums, qkv, with);
  };

  expect_error([&] { forward(out, lse, {.heads = 5, .kv_heads = 5}); }, {"(2, 5, 24)", "5"});
  expect_error([&] { forward(out, lse, {.heads = 3, .kv_heads = 2}); }, {"3 heads", "2 key heads"});
  expect_error([&] { forward(out, lse, {2, 2, false, 3}); }, {"window of 3", "causal"});
  expect_error([&] { forward(out, lse, {2, 2, true, -1}); }, {"window of -1"});
  expect_error([&] { forward(out, lse, {2, 2, true, 0, -1.0}); }, {"soft cap of -1"});
  expect_error([&] { forward(wide, lse, two); }, {"(2, 5, 9)", "(2, 5, 8)"});
  expect_error([&] { forward(out, turned, two); }, {"(2, 5, 2)", "(2, 2, 5)"});
  expect_error([&] { ops::attention_backward(stream(), qkv, out, out, lse, qkv, two); },
               {"dqkv", "memory"});
}

}  // namespace
}  // namespace trireme
