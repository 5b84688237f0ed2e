// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/optimizer_update.h"

#include <limits>
#include <numeric>

#include "runtime/ops/common/fixed_sum.h"
#include "runtime/ops/update/exact_sum.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using ops::StepScalars;

GuardedTensor scalars_of(double learning_rate, double c1, double c2, double scale) {
  return {DType::f32, {StepScalars::count}, {learning_rate, c1, c2, scale}};
}

template <typename Op>
void with_table(const std::vector<ops::UpdateRun>& runs, const Op& op) {
  const ops::UpdateTable table(stream(), runs);
  op(table);
  stream().synchronize();
}

void update(OptimizerKind kind, const std::vector<ops::UpdateRun>& runs, const Tensor& scalars,
            const ops::UpdateOptions& options = {},
            ops::UpdatePart part = ops::UpdatePart::weights) {
  with_table(
      runs, [&](const auto& table) { ops::update(stream(), kind, part, table, scalars, options); });
}

void sum_squares_of(const Tensor& squares, const Tensor& parameter, const Tensor& direction) {
  const ops::SquaresRun runs[] = {{parameter, 0}, {direction, 1}};
  const ops::SquaresTable table(stream(), runs, 2, false);
  ops::sum_squares(stream(), squares.reshaped({2}), table);
  stream().synchronize();
}

TEST(AdamW, FollowsTheFormulaOverSeveralSteps) {
  for (const std::int64_t n : {1, 3, 7, 17, 33, 1500}) {
    const ops::UpdateOptions options{
        .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F, .weight_decay = 0.1F};
    const GuardedTensor p = random_tensor(DType::f32, {n}, 1);
    const GuardedTensor m(DType::f32, {n}, std::vector<double>(static_cast<std::size_t>(n)));
    const GuardedTensor v(DType::f32, {n}, std::vector<double>(static_cast<std::size_t>(n)));
    const GuardedTensor low(DType::bf16, {n});
    std::vector<double> rp = p.get(), rm = m.get(), rv = v.get();
    for (int t = 1; t <= 3; ++t) {
      const GuardedTensor g = random_tensor(DType::f32, {n}, 10 + static_cast<unsigned>(t));
      const double c1 = 1 - std::pow(0.9, t), c2 = 1 - std::pow(0.95, t);
      const std::vector<double> rg = g.get();
      for (std::size_t i = 0; i < rp.size(); ++i) {
        const double gradient = rg[i] * 0.5;
        rm[i] = 0.9 * rm[i] + 0.1 * gradient;
        rv[i] = 0.95 * rv[i] + 0.05 * gradient * gradient;
        rp[i] -= 1e-2 * ((rm[i] / c1) / (std::sqrt(rv[i] / c2) + 1e-8) + 0.1 * rp[i]);
      }

      update(OptimizerKind::adamw, {{p, g, low, m, v, {}, true}}, scalars_of(1e-2, c1, c2, 0.5),
             options);
    }
    expect_close(p.get(), rp, 1e-6, 1e-6);
    expect_close(m.get(), rm, 1e-5, 1e-7);
    expect_close(v.get(), rv, 1e-5, 1e-7);
    std::vector<double> rounded = p.get();
    for (double& value : rounded) {
      value = static_cast<double>(static_cast<float>(bf16(static_cast<float>(value))));
    }
    EXPECT_EQ(low.get(), rounded);
  }
}

TEST(AdamW, IsTheSameWithAndWithoutTheComputeCopy) {
  const GuardedTensor g = random_tensor(DType::f32, {1025}, 2),
                      scalars = scalars_of(.01, .1, .05, 1);
  std::vector<std::vector<unsigned char>> results;
  for (const bool copy : {false, true}) {
    const GuardedTensor p = random_tensor(DType::f32, {1025}, 3),
                        m = random_tensor(DType::f32, {1025}, 4);
    const GuardedTensor v = random_tensor(DType::f32, {1025}, 5, 0.0, 1.0),
                        low(DType::bf16, {1025});

    update(OptimizerKind::adamw, {{p, g, copy ? low.view() : Tensor{}, m, v}}, scalars, {});

    results.push_back(p.raw());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(AdamW, IsTheSameAtAnyAlignment) {
  const std::int64_t n = 1021;
  const GuardedTensor scalars = scalars_of(.01, .1, .05, 1);
  const std::vector<double> values = random_values(n, 3, DType::f32, 0.0, 1.0);
  std::vector<std::vector<double>> results;
  for (const std::int64_t shift : {0, 1, 2, 3}) {
    const auto shifted = [&] {
      std::vector<double> padded(static_cast<std::size_t>(shift));
      padded.insert(padded.end(), values.begin(), values.end());
      return GuardedTensor(DType::f32, {n + shift}, padded);
    };
    const GuardedTensor p = shifted(), m = shifted(), v = shifted(), g = shifted();
    const GuardedTensor low(DType::bf16, {n});

    const auto part = [&](const GuardedTensor& all) { return all.view().range(shift, n); };
    update(OptimizerKind::adamw, {{part(p), part(g), low, part(m), part(v), {}, true}}, scalars,
           {.weight_decay = 0.1F});

    std::vector<double> result = low.get();
    for (const GuardedTensor* const each : {&p, &m, &v}) {
      const std::vector<double> all = each->get();
      result.insert(result.end(), all.begin() + shift, all.end());
    }
    results.push_back(result);
    EXPECT_EQ(results.back(), results.front());
  }
}

TEST(AdamW, LeavesEverythingAloneWhenTheGradientIsNotFinite) {
  const GuardedTensor p = random_tensor(DType::f32, {9}, 1), m = random_tensor(DType::f32, {9}, 2);
  const GuardedTensor v = random_tensor(DType::f32, {9}, 3, 0.0, 1.0),
                      g = random_tensor(DType::f32, {9}, 4);
  auto gradient = g.elements<float>();
  gradient[4] = std::numeric_limits<float>::infinity();
  g.set_elements(gradient);
  const GuardedTensor scalars = scalars_of(0.1, 1, 1, 1), norm(DType::f32, {1});
  const GuardedTensor total(DType::f64, {1}, {0.0});
  const auto before = p.raw();

  const ops::SquaresRun run{g};
  const ops::SquaresTable squares(stream(), {&run, 1}, 1, false);
  ops::sum_squares(stream(), total, squares);
  ops::clip_scale(stream(), scalars, norm, total, 1.0F);
  update(OptimizerKind::adamw, {{p, g, {}, m, v}}, scalars, {});

  EXPECT_TRUE(std::isinf(norm.get()[0]));
  EXPECT_EQ(p.raw(), before);
}

TEST(Lion, FollowsTheFormulaOverSeveralSteps) {
  for (const std::int64_t n : {1, 3, 17, 1030}) {
    const ops::UpdateOptions options{.beta1 = 0.9F, .beta2 = 0.99F, .weight_decay = 0.1F};
    const GuardedTensor p = random_tensor(DType::f32, {n}, 1), low(DType::bf16, {n});
    const GuardedTensor m(DType::f32, {n}, std::vector<double>(static_cast<std::size_t>(n)));
    std::vector<double> rp = p.get(), rm = m.get();
    for (unsigned t = 0; t < 3; ++t) {
      GuardedTensor gradient = random_tensor(DType::f32, {n}, 10 + t);
      std::vector<double> rg = gradient.get();
      rg[0] = 0;  // the first element has never had a gradient: decay alone moves it
      gradient.set(rg);
      for (std::size_t i = 0; i < rp.size(); ++i) {
        const double g = rg[i] * 0.5, mixed = 0.9 * rm[i] + 0.1 * g;
        rp[i] -= 1e-2 * ((mixed > 0 ? 1 : mixed < 0 ? -1 : 0) + 0.1 * rp[i]);
        rm[i] = 0.99 * rm[i] + 0.01 * g;
      }

      update(OptimizerKind::lion, {{p, gradient, low, m, {}, {}, true}},
             scalars_of(1e-2, 1, 1, 0.5), options);
    }
    expect_close(p.get(), rp, 1e-6, 1e-6);
    expect_close(m.get(), rm, 1e-5, 1e-7);
    expect_close(low.get(), rp, 0x1p-8, 1e-6);
  }
}

TEST(Sgd, FollowsTheFormulaWithAndWithoutNesterov) {
  for (const bool nesterov : {false, true}) {
    const ops::UpdateOptions options{.momentum = 0.9F, .nesterov = nesterov, .weight_decay = 0.01F};
    const GuardedTensor p = random_tensor(DType::f32, {1030}, 1), low(DType::bf16, {1030});
    const GuardedTensor b(DType::f32, {1030}, std::vector<double>(1030));
    std::vector<double> rp = p.get(), rb = b.get();
    for (unsigned t = 0; t < 3; ++t) {
      const GuardedTensor gradient = random_tensor(DType::f32, {1030}, 10 + t);
      const std::vector<double> rg = gradient.get();
      for (std::size_t i = 0; i < rp.size(); ++i) {
        const double g = rg[i] * 2.0 + 0.01 * rp[i];
        rb[i] = 0.9 * rb[i] + g;
        rp[i] -= 0.1 * (nesterov ? g + 0.9 * rb[i] : rb[i]);
      }

      update(OptimizerKind::sgd, {{p, gradient, low, b, {}, {}, true}}, scalars_of(0.1, 1, 1, 2.0),
             options);
    }
    expect_close(p.get(), rp, 1e-5, 1e-6);
    expect_close(low.get(), rp, 0x1p-8, 1e-6);
  }
}

// sqrt of the sum of squares.
double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x)
    sum += value * value;
  return std::sqrt(sum);
}

TEST(Lamb, StepsByTheNormOfTheTensorOverThatOfItsDirection) {
  const std::int64_t n = 1030;
  const auto size = static_cast<std::size_t>(n);
  const ops::UpdateOptions options{.epsilon = 1e-6F, .weight_decay = 0.1F};
  const GuardedTensor p = random_tensor(DType::f32, {n}, 1), low(DType::bf16, {n});
  const GuardedTensor m(DType::f32, {n}, std::vector<double>(size)),
      v(DType::f32, {n}, std::vector<double>(size)), ratio(DType::f32, {1, 2});
  std::vector<double> rp = p.get(), rm(size), rv(size), rd(size);
  for (int t = 1; t <= 3; ++t) {
    const GuardedTensor gradient = random_tensor(DType::f32, {n}, 10 + static_cast<unsigned>(t));
    const std::vector<double> rg = gradient.get();
    const double c1 = 1 - std::pow(0.9, t), c2 = 1 - std::pow(0.999, t);
    for (std::size_t i = 0; i < size; ++i) {
      const double g = rg[i] * 0.5;
      rm[i] = 0.9 * rm[i] + 0.1 * g;
      rv[i] = 0.999 * rv[i] + 0.001 * g * g;
      rd[i] = (rm[i] / c1) / (std::sqrt(rv[i] / c2) + 1e-6) + 0.1 * rp[i];
    }
    const double trust = norm_of(rp) / norm_of(rd);
    for (std::size_t i = 0; i < size; ++i)
      rp[i] -= 1e-2 * trust * rd[i];
    const GuardedTensor scalars = scalars_of(1e-2, c1, c2, 0.5);
    const GuardedTensor squares(DType::f64, {1, 2}, {0, 0});

    const ops::UpdateRun run{p, gradient, low, m, v, ratio, true};
    update(OptimizerKind::lamb, {run}, scalars, options, ops::UpdatePart::direction);
    sum_squares_of(squares, p, gradient);
    ops::trust_ratios(stream(), ratio, squares, scalars, {});
    update(OptimizerKind::lamb, {run}, scalars, options);

    EXPECT_NEAR(ratio.get()[0], trust, 1e-4 * trust);
  }
  expect_close(p.get(), rp, 1e-4, 1e-5);
  expect_close(low.get(), p.get(), 0x1p-8, 1e-6);
}

TEST(Lars, StepsByTheNormOfTheTensorOverThatOfItsGradient) {
  const std::int64_t n = 517;
  const auto size = static_cast<std::size_t>(n);
  const ops::UpdateOptions options{.momentum = 0.9F, .weight_decay = 0.01F};
  const GuardedTensor p = random_tensor(DType::f32, {n}, 1), low(DType::bf16, {n});
  const GuardedTensor b(DType::f32, {n}, std::vector<double>(size)), ratio(DType::f32, {1, 2});
  std::vector<double> rp = p.get(), rb(size);
  for (unsigned t = 0; t < 3; ++t) {
    const GuardedTensor gradient = random_tensor(DType::f32, {n}, 10 + t);
    const std::vector<double> rg = gradient.get();
    const double trust = 0.02 * norm_of(rp) / (2.0 * norm_of(rg) + 0.01 * norm_of(rp));
    for (std::size_t i = 0; i < size; ++i) {
      rb[i] = 0.9 * rb[i] + 0.5 * trust * (2.0 * rg[i] + 0.01 * rp[i]);
      rp[i] -= rb[i];
    }
    const GuardedTensor scalars = scalars_of(0.5, 1, 1, 2.0);
    const GuardedTensor squares(DType::f64, {1, 2}, {0, 0});

    sum_squares_of(squares, p, gradient);
    ops::trust_ratios(stream(), ratio, squares, scalars,
                      {.coefficient = 0.02F, .weight_decay = 0.01F, .gradients = true});
    update(OptimizerKind::lars, {{p, gradient, low, b, {}, ratio, true}}, scalars, options);
  }
  expect_close(p.get(), rp, 1e-5, 1e-6);
  expect_close(low.get(), rp, 0x1p-8, 1e-6);
}

TEST(TrustRatios, AreOneWhereATensorOrItsDirectionIsZero) {
  const GuardedTensor ratios(DType::f32, {4, 2});
  const GuardedTensor squares(DType::f64, {4, 2}, {0, 0, 0, 9, 4, 0, 4, 16});

  ops::trust_ratios(stream(), ratios, squares, scalars_of(1, 1, 1, 1), {});

  EXPECT_EQ(ratios.get(), (std::vector<double>{1, 1, 1, 1, 1, 1, 0.5, 1}));
}

TEST(ExponentialAverage, IsUnchangedInASkippedStep) {
  const GuardedTensor average = random_tensor(DType::f32, {37}, 1),
                      p = random_tensor(DType::f32, {37}, 2);
  const auto before = average.raw();

  ops::exponential_average(stream(), average, p, 0.5F, scalars_of(1, 1, 1, 0));
  EXPECT_EQ(average.raw(), before);

  ops::exponential_average(stream(), average, p, 0.5F, scalars_of(1, 1, 1, 1));
  EXPECT_NE(average.raw(), before);
}

TEST(Sgd, ReplayedFromAGraphReadsTheScalarsOfThatStep) {
  if (test::device_under_test() == DeviceType::cpu) GTEST_SKIP() << "the CPU records no graphs";
  const GuardedTensor p(DType::f32, {2}, {1.0, 2.0}), g(DType::f32, {2}, {1.0, -1.0});
  GuardedTensor scalars = scalars_of(0, 1, 1, 1);
  const ops::UpdateRun run{p, g};
  const ops::UpdateTable table(stream(), {&run, 1});
  const auto graph = stream().device().capture(stream(), [&] {
    ops::update(stream(), OptimizerKind::sgd, ops::UpdatePart::weights, table, scalars, {});
  });
  const auto replayed = [&](double learning_rate, double scale) {
    scalars.set({learning_rate, 1, 1, scale});
    graph->launch(stream());
    return p.get();
  };

  EXPECT_EQ(replayed(0.5, 1), (std::vector<double>{0.5, 2.5}));
  EXPECT_EQ(replayed(0.25, 2), (std::vector<double>{0.0, 3.0}));
  EXPECT_EQ(replayed(0.25, 0), (std::vector<double>{0.0, 3.0})) << "a skipped step";
}

TEST(Sgd, NeedsNoBufferWithoutMomentum) {
  const GuardedTensor p(DType::f32, {3}, {1.0, 2.0, 3.0}), g(DType::f32, {3}, {1.0, -1.0, 0.5});

  update(OptimizerKind::sgd, {{p, g}}, scalars_of(0.5, 1, 1, 1), {});

  EXPECT_EQ(p.get(), (std::vector<double>{0.5, 2.5, 2.75}));
  expect_error(
      [&] {
        update(OptimizerKind::sgd, {{p, g}}, scalars_of(1, 1, 1, 1), {.momentum = 0.9F});
      },
      {"sgd", "a first moment is absent"});
}

TEST(ExponentialAverage, MovesTowardsTheParameter) {
  const GuardedTensor average(DType::f32, {3}, {1.0, 2.0, 3.0}),
      p(DType::f32, {3}, {3.0, 2.0, -1.0});

  ops::exponential_average(stream(), average, p, 0.75F);

  EXPECT_EQ(average.get(), (std::vector<double>{1.5, 2.0, 2.0}));
}

// Runs that end within a tile, at its border and behind it.
const std::vector<std::int64_t> run_sizes{5, 4096, 1, 10007, 70001, 16};

// Runs are contiguous in memory, so most begin at odd offsets.
Tensor run_of(const Tensor& all, std::size_t run) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < run; ++i)
    first += run_sizes[i];
  return all.range(first, run_sizes[run]);
}

const std::int64_t all_runs = std::accumulate(run_sizes.begin(), run_sizes.end(), std::int64_t{0});

TEST(UpdateTable, UpdatesEachOfItsRunsAsOneAlone) {
  const GuardedTensor g = random_tensor(DType::f32, {all_runs}, 2),
                      scalars = scalars_of(.01, .1, .05, 1);
  std::vector<std::vector<unsigned char>> results;
  for (const bool together : {false, true}) {
    const GuardedTensor p = random_tensor(DType::f32, {all_runs}, 3),
                        m = random_tensor(DType::f32, {all_runs}, 4),
                        v = random_tensor(DType::f32, {all_runs}, 5, 0.0, 1.0),
                        low(DType::bf16, {all_runs});
    std::vector<ops::UpdateRun> runs;
    for (std::size_t i = 0; i < run_sizes.size(); ++i) {
      const auto part = [&](const GuardedTensor& all) { return run_of(all, i); };
      runs.push_back({part(p),
                      part(g),
                      i == 2 ? Tensor{} : part(low),
                      part(m),
                      part(v),
                      {},
                      i % 2 == 0 ? 1.0F : 0.0F,
                      i == 3 ? 0.3F : 1.0F});
    }
    const ops::UpdateOptions options{.weight_decay = 0.1F};
    if (together) {
      update(OptimizerKind::adamw, runs, scalars, options);
    } else {
      for (const ops::UpdateRun& run : runs)
        update(OptimizerKind::adamw, {run}, scalars, options);
    }
    for (const GuardedTensor* const each : {&p, &m, &v, &low})
      results.push_back(each->raw());
  }
  for (std::size_t i = 0; i < results.size() / 2; ++i)
    EXPECT_EQ(results[i], results[i + results.size() / 2]) << "tensor " << i;
}

TEST(UpdateTable, RefusesMismatchedTensors) {
  const GuardedTensor p(DType::f32, {4}), g(DType::f32, {5}), other(DType::f32, {4}),
      bf(DType::bf16, {4}), half(DType::f16, {4}), more(DType::f32, {4});
  const auto table = [&](const std::vector<ops::UpdateRun>& runs) {
    return ops::UpdateTable(stream(), runs);
  };

  expect_error([&] { table({{p, g}}); }, {"gradient", "(5)", "4"});
  expect_error([&] { table({{p, p}}); }, {"shares memory"});
  expect_error([&] { table({{p, other, bf}, {p, other, half}}); }, {"bf16", "f16"});
  expect_error(
      [&] {
        update(OptimizerKind::adamw, {{p, other}}, scalars_of(1, 1, 1, 1), {});
      },
      {"adamw", "first moment is absent"});
}

TEST(SumSquares, AddsChunksAndRunsInOrder) {
  const GuardedTensor x = random_tensor(DType::f32, {all_runs}, 7);
  const std::vector<float> values = x.elements<float>();
  // Of six runs three belong to the first total, none to the second, two to the third, one to the
  // last.
  const std::int64_t total_of[] = {0, 0, 0, 2, 2, 3};
  std::vector<double> expected(4, 0.0);
  std::vector<ops::SquaresRun> runs;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < run_sizes.size(); ++i) {
    runs.push_back({run_of(x, i), total_of[i]});
    expected[static_cast<std::size_t>(total_of[i])] +=
        ops::fixed_sum<true>(values.data() + first, run_sizes[i]);
    first += run_sizes[i];
  }
  const GuardedTensor totals(DType::f64, {4}, {7, 7, 7, 7});
  const ops::SquaresTable table(stream(), runs, 4, false);

  ops::sum_squares(stream(), totals, table);

  EXPECT_EQ(totals.get(), expected);
  const std::vector<ops::SquaresRun> backwards{{x, 1}, {x, 0}};
  expect_error([&] { ops::SquaresTable(stream(), backwards, 2, false); }, {"total 0 of 2"});
}

TEST(SumSquares, OfAColumnAreThoseOfItsValuesAlone) {
  const std::int64_t rows = 4200, columns = 3;  // more than a chunk
  const GuardedTensor x = random_tensor(DType::f32, {rows, columns}, 8);
  const std::vector<double> values = x.get();
  std::vector<double> column;
  for (std::size_t i = 1; i < values.size(); i += columns)
    column.push_back(values[i]);
  const GuardedTensor alone(DType::f32, {rows}, column);
  const std::vector<ops::SquaresRun> runs{{x.view().range(1, rows * columns - 1), 0, columns},
                                          {alone, 1}};

  const GuardedTensor totals(DType::f64, {2}, {7, 7});
  const ops::SquaresTable table(stream(), runs, 2, false), exact(stream(), runs, 2, true);
  ops::sum_squares(stream(), totals, table);
  EXPECT_EQ(totals.get()[0], totals.get()[1]);
  EXPECT_GT(totals.get()[0], 0);

  const GuardedTensor states(DType::u64, {2 * ops::exact_sum_words});
  ops::sum_squares_exact(stream(), states, exact);
  ops::exact_sum_values(stream(), totals, states);
  EXPECT_EQ(totals.get()[0], totals.get()[1]);
  EXPECT_GT(totals.get()[0], 0);
}

// A matrix of 300 x 5, so that threads take several rows, after a vector of 7.
TEST(FactoredMoments, AreMeanSquaresOfRowsAndColumns) {
  const std::vector<ops::FactoredMatrix> matrices{
      {.rows = 1, .columns = 7, .first_row = 0, .first_column = 4},
      {.rows = 300, .columns = 5, .first_row = 12, .first_column = 312}};
  const Buffer table = ops::uploaded(stream(), std::as_bytes(std::span(matrices)));
  const std::int64_t n = 320;
  const GuardedTensor state = random_tensor(DType::f32, {n}, 1, 0.5, 1.0),
                      totals = random_tensor(DType::f64, {n}, 2, 0.5, 1.0),
                      roots(DType::f32, {n}, std::vector<double>(static_cast<std::size_t>(n)));
  const std::vector<double> before = state.get(), sums = totals.get();
  const auto step = [&](double scale) {
    ops::factored_moments(
        stream(), state, roots, totals, scalars_of(1, 1, 0.25, scale),
        {reinterpret_cast<const ops::FactoredMatrix*>(table.data()), matrices.size()});
    stream().synchronize();
  };
  step(0);
  EXPECT_EQ(state.get(), before) << "a skipped step";
  step(2);

  const std::vector<double> after = state.get(), root = roots.get();
  for (const ops::FactoredMatrix& matrix : matrices) {
    double mean = 0;
    const auto expect_state = [&](std::int64_t at, std::int64_t count) {
      const auto i = static_cast<std::size_t>(at);
      EXPECT_NEAR(after[i], 0.75 * before[i] + 0.25 * 4 * sums[i] / static_cast<double>(count),
                  1e-6);
      return after[i];
    };
    for (std::int64_t i = 0; i < matrix.rows; ++i)
      mean += expect_state(matrix.first_row + i, matrix.columns) / static_cast<double>(matrix.rows);
    for (std::int64_t i = 0; i < matrix.rows; ++i) {
      const auto row = static_cast<std::size_t>(matrix.first_row + i);
      EXPECT_NEAR(root[row], std::sqrt(mean / after[row]), 1e-6);
    }
    for (std::int64_t i = 0; i < matrix.columns; ++i) {
      const double value = expect_state(matrix.first_column + i, matrix.rows);
      EXPECT_NEAR(root[static_cast<std::size_t>(matrix.first_column + i)], 1 / std::sqrt(value),
                  1e-5);
    }
  }
  EXPECT_EQ(root[0], 1) << "of a vector";
}

TEST(TrustRatios, OfRootMeanSquaresClipTheDirectionAndScaleByTheParameter) {
  const GuardedTensor ratios(DType::f32, {3, 2}), counts(DType::f64, {3}, {4, 4, 4});
  const GuardedTensor squares(DType::f64, {3, 2}, {1, 1, 16, 64, 0, 0});

  ops::trust_ratios(stream(), ratios, squares, scalars_of(1, 1, 1, 1), {}, counts);
  EXPECT_EQ(ratios.get(), (std::vector<double>{1, 1, 0.25, 1, 1, 1}));

  ops::trust_ratios(stream(), ratios, squares, scalars_of(1, 1, 1, 1), {.scale_parameter = true},
                    counts);
  const double least = 1e-3F;
  EXPECT_EQ(ratios.get(), (std::vector<double>{0.5, 0.5, 0.5, 2, least, least}));
}

}  // namespace
}  // namespace trireme
