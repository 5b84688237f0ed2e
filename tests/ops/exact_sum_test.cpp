// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/exact_sum.h"

#include <algorithm>
#include <limits>

#include "runtime/ops/update/loss_sums.h"
#include "runtime/ops/update/noise_scale.h"
#include "runtime/ops/update/update_table.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Floats = std::vector<float>;
using State = std::vector<std::uint64_t>;

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto largest = std::numeric_limits<float>::max();
constexpr auto smallest = std::numeric_limits<float>::denorm_min();

State empty_state() {
  return State(static_cast<std::size_t>(ops::exact_sum_words));
}

void accumulate(State& state, const float* x, std::size_t count) {
  const GuardedTensor words(DType::u64, {ops::exact_sum_words});
  const GuardedTensor values(DType::f32, {static_cast<std::int64_t>(count)});
  words.set_elements(state);
  values.set_elements(Floats(x, x + count));

  ops::accumulate_squares_exact(stream(), words, values);

  state = words.elements<std::uint64_t>();
}

State state_of(const Floats& x) {
  State state = empty_state();
  accumulate(state, x.data(), x.size());
  return state;
}

double value_of(const State& state) {
  const GuardedTensor words(DType::u64, {ops::exact_sum_words}), total(DType::f64, {1});
  words.set_elements(state);

  ops::exact_sum_values(stream(), total, words);

  return total.get()[0];
}

double sum_of_squares(const Floats& x) {
  return value_of(state_of(x));
}

// Signs, zeros, subnormals and magnitudes over the whole range of floats, a few of each in every
// stretch.
Floats wild_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> mantissa(-2.0F, 2.0F);
  std::uniform_int_distribution<int> exponent(-149, 126);
  Floats values(count);
  for (float& value : values)
    value = std::ldexp(mantissa(generator), exponent(generator));
  for (std::size_t i = 3; i < count; i += 7)
    values[i] = 0.0F;
  return values;
}

Floats normal_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, 0.01F);
  Floats values(count);
  for (float& value : values)
    value = normal(generator);
  return values;
}

TEST(ExactSum, MatchesASumInLongDouble) {
  for (const std::size_t count : {1U, 2U, 17U, 511U, 512U, 513U, 5000U}) {
    for (const Floats& x : {wild_values(count, 1), normal_values(count, 2)}) {
      long double expected = 0.0L;
      for (const float value : x)
        expected += static_cast<long double>(value) * static_cast<long double>(value);

      EXPECT_NEAR(sum_of_squares(x) / static_cast<double>(expected), 1.0, 0x1p-52)
          << count << " values";
    }
  }
}

TEST(ExactSum, HasTheSameBitsHoweverTheValuesAreSplitAndOrdered) {
  for (Floats x : {wild_values(4099, 3), normal_values(4099, 4)}) {
    const State whole = state_of(x);
    std::mt19937 generator(5);
    for (int round = 0; round < 20; ++round) {
      std::shuffle(x.begin(), x.end(), generator);
      State parts = empty_state();
      for (std::size_t first = 0; first < x.size();) {
        const std::size_t count =
            std::min<std::size_t>(generator() % (round < 10 ? 40 : 2000), x.size() - first);
        accumulate(parts, x.data() + first, count);
        first += count;
      }

      ASSERT_EQ(parts, whole);
    }
  }
}

TEST(ExactSum, HasTheSameBitsWhenStatesAreAddedWordByWord) {
  const Floats x = wild_values(3000, 6);
  State sum = empty_state();
  for (std::size_t first = 0; first < x.size(); first += 3) {
    const State part = state_of({x.begin() + static_cast<std::ptrdiff_t>(first),
                                 x.begin() + static_cast<std::ptrdiff_t>(first) + 3});
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += part[i];
  }
  const State whole = state_of(x);

  EXPECT_EQ(value_of(sum), value_of(whole));
  ASSERT_NE(sum, whole);  // limbs contain carries
  accumulate(sum, x.data(), 0);
  EXPECT_EQ(sum, whole);
}

TEST(ExactSum, HasRoomForAStateFromEachOfTwoToThe31Ranks) {
  State sum = state_of({largest, smallest, 1.5F});
  State most = empty_state();
  most[0] = 0xffffffffU;  // the fullest limb that a state has
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] <<= 31;
    most[i] <<= 31;
  }

  EXPECT_EQ(value_of(sum), std::ldexp(sum_of_squares({largest, smallest, 1.5F}), 31));
  EXPECT_EQ(value_of(most), std::ldexp(4294967295.0, 31 - 298));
}

TEST(ExactSum, RoundsOnceToNearestEven) {
  const float half = 0x1p-27F;  // two of its squares are half a unit in the last place of 1
  EXPECT_EQ(sum_of_squares({1.0F, half, half}), 1.0);
  EXPECT_EQ(sum_of_squares({half, 1.0F, half, smallest}), 1.0 + 0x1p-52);
  EXPECT_EQ(sum_of_squares({1.0F, 0x1p-26F, half, half}), 1.0 + 0x1p-51);
  EXPECT_EQ(sum_of_squares({1.0F, half, 0x1.fffffep-28F}), 1.0);
}

TEST(ExactSum, KeepsTheSmallestAndTheLargestFloats) {
  const double top = static_cast<double>(largest) * static_cast<double>(largest);

  EXPECT_EQ(sum_of_squares({smallest}), 0x1p-298);
  EXPECT_EQ(sum_of_squares(Floats(1000, -smallest)), 1000 * 0x1p-298);
  EXPECT_EQ(sum_of_squares(Floats(1024, largest)), 1024 * top);
  EXPECT_EQ(sum_of_squares({largest, smallest, -largest}), 2 * top);
  EXPECT_EQ(sum_of_squares({0.0F, -0.0F}), 0.0);
  EXPECT_EQ(sum_of_squares({}), 0.0);
}

TEST(ExactSum, LosesNoSmallValueBesideALargeOne) {
  State with = state_of({largest, 1.0F, 0x1p-100F}), without = state_of({largest});
  for (std::size_t i = 0; i < with.size(); ++i)
    with[i] -= without[i];

  EXPECT_EQ(value_of(with), 1.0);
  const State one = state_of({1.0F});
  for (std::size_t i = 0; i < with.size(); ++i)
    with[i] -= one[i];
  EXPECT_EQ(value_of(with), 0x1p-200);
}

TEST(ExactSum, ShowsInfinitiesAndNaNsAtAnyPlace) {
  for (const std::size_t at : {0U, 300U, 999U}) {
    Floats x = normal_values(1000, 7);
    x[at] = -infinity;
    EXPECT_EQ(sum_of_squares(x), static_cast<double>(infinity));
    State state = state_of({1.0F});
    accumulate(state, x.data(), x.size());
    x[(at + 1) % 1000] = std::nanf("");
    EXPECT_TRUE(std::isnan(sum_of_squares(x)));
    accumulate(state, x.data(), x.size());
    EXPECT_TRUE(std::isnan(value_of(state)));
  }
}

// Runs of a table within a part, over several parts and of several totals, one without a run.
TEST(ExactSum, OfATableHasTheBitsOfOneCallForEachRun) {
  const std::vector<std::size_t> sizes{3, 512, 140001, 65536, 700};
  const std::int64_t total_of[] = {0, 0, 0, 2, 2};
  std::vector<State> expected(3, empty_state());
  std::vector<GuardedTensor> values;
  std::vector<ops::SquaresRun> runs;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Floats x = i == 2 ? normal_values(sizes[i], 9) : wild_values(sizes[i], 8);
    values.emplace_back(DType::f32, Shape{static_cast<std::int64_t>(x.size())});
    values.back().set_elements(x);
    runs.push_back({values.back(), total_of[i]});
    accumulate(expected[static_cast<std::size_t>(total_of[i])], x.data(), x.size());
  }
  const GuardedTensor states(DType::u64, {3 * ops::exact_sum_words});
  const ops::SquaresTable table(stream(), runs, 3, true);

  ops::sum_squares_exact(stream(), states, table);

  State all;
  for (const State& state : expected)
    all.insert(all.end(), state.begin(), state.end());
  EXPECT_EQ(states.elements<std::uint64_t>(), all);
}

TEST(ExactSumErrors, NameTheStateAndItsSize) {
  const GuardedTensor x(DType::f32, {4}), few(DType::u64, {8}), wrong(DType::f64, {4});
  const GuardedTensor state(DType::u64, {ops::exact_sum_words}), total(DType::f64, {1});

  expect_error([&] { ops::accumulate_squares_exact(stream(), few, x); },
               {"accumulate_squares_exact", "state", "(8)", "(22)"});
  expect_error([&] { ops::accumulate_squares_exact(stream(), state, wrong); }, {"f64", "f32"});
  expect_error([&] { ops::accumulate_squares_exact(stream(), state, Tensor{}); }, {"x is absent"});
  expect_error([&] { ops::exact_sum_values(stream(), total, few); }, {"exact_sum_values", "8"});
}

// g of b samples: |g|^2 = 2 + 24 / b, so |G|^2 = 2 and tr(S) = 24.
TEST(NoiseScale, IsTheQuotientOfTheMeansOfBothEstimates) {
  constexpr double small = 4, micro_batches = 8, large = small * micro_batches;
  const GuardedTensor state(DType::f64, {ops::NoiseState::count},
                            std::vector<double>(ops::NoiseState::count));
  const GuardedTensor scale(DType::f32, {1}, {16.0});
  // Half of the targets count, so gradients are half of their final divisor.
  std::vector<double> totals(2 * ops::LossSums::count, 0.0);
  totals[ops::LossSums::targets] = 20;
  totals[ops::LossSums::count + ops::LossSums::targets] = 30;
  const GuardedTensor sums(DType::f64, {2, ops::LossSums::count}, totals);
  const double factor = 16 * 0.5;
  const auto measure = [&](double of_small, double of_large) {
    const GuardedTensor squares(
        DType::f64, {2}, {of_small / micro_batches * factor * factor, of_large * factor * factor});
    ops::estimate_noise(stream(), state, squares,
                        {.small = small,
                         .micro_batches = micro_batches,
                         .targets = 100,
                         .loss_scale = scale,
                         .sums = sums});
  };

  measure(2 + 24 / small, 2 + 24 / large);
  const auto once = state.get();
  EXPECT_NEAR(once[ops::NoiseState::last_square], 2, 1e-12);
  EXPECT_NEAR(once[ops::NoiseState::last_trace], 24, 1e-12);
  EXPECT_NEAR(once[ops::NoiseState::trace] / once[ops::NoiseState::square], 12, 1e-12);
  measure(5 + 24 / small, 5 + 24 / large);
  const auto twice = state.get();
  EXPECT_NEAR(twice[ops::NoiseState::square], 0.95 * 0.05 * 2 + 0.05 * 5, 1e-12);
  measure(std::numeric_limits<double>::infinity(), 1);
  EXPECT_EQ(state.get(), twice) << "what is not finite is left out";
}

}  // namespace
}  // namespace trireme
