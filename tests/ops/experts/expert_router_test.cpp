// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/router.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using ops::RouterOptions;
using ops::RouterScore;
using Values = std::vector<double>;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// A router in fp64 that sorts.
struct Reference {
  RouterOptions options;
  Values bias;  // of the choice; may be empty

  [[nodiscard]] static Values softmax(const Values& z) {
    const double largest = *std::max_element(z.begin(), z.end());
    Values p;
    for (const double value : z)
      p.push_back(std::exp(value - largest));
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p)
      value /= sum;
    return p;
  }
  [[nodiscard]] Values scores(const Values& z) const {
    if (options.score != RouterScore::sigmoid) return softmax(z);
    Values s;
    for (const double value : z)
      s.push_back(1 / (1 + std::exp(-value)));
    return s;
  }
  // The places of the `count` largest, of equal ones the first.
  [[nodiscard]] static std::vector<std::size_t> largest(const Values& values, std::size_t count) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    order.resize(count);
    return order;
  }
  [[nodiscard]] std::vector<std::size_t> choice(const Values& z) const {
    Values by = options.score == RouterScore::softmax_of_chosen ? z : scores(z);
    for (std::size_t e = 0; e < by.size() && !bias.empty(); ++e)
      by[e] += bias[e];
    const std::size_t size = by.size() / at(options.groups);
    Values groups;
    for (std::size_t g = 0; g < at(options.groups); ++g) {
      Values members(by.begin() + static_cast<std::ptrdiff_t>(g * size),
                     by.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
      std::sort(members.rbegin(), members.rend());
      groups.push_back(members[0] + (size > 1 ? members[1] : 0));
    }
    const auto kept = largest(groups, at(options.groups_kept));
    for (std::size_t e = 0; e < by.size(); ++e) {
      if (std::find(kept.begin(), kept.end(), e / size) == kept.end())
        by[e] = -std::numeric_limits<double>::infinity();
    }
    return largest(by, at(options.slots));
  }
  [[nodiscard]] Values weights(const Values& z, const std::vector<std::size_t>& chosen) const {
    Values w, of_chosen;
    for (const std::size_t e : chosen) {
      w.push_back(scores(z)[e]);
      of_chosen.push_back(z[e]);
    }
    if (options.score == RouterScore::softmax_of_chosen) {
      w = softmax(of_chosen);
    } else if (options.renormalize) {
      const double sum = std::accumulate(w.begin(), w.end(), 0.0);
      for (double& value : w)
        value /= sum;
    }
    for (double& value : w)
      value *= static_cast<double>(options.scale);
    return w;
  }
};

struct Named {
  const char* name;
  RouterOptions options;
  bool biased = false;
};
class Router : public ::testing::TestWithParam<Named> {};
INSTANTIATE_TEST_SUITE_P(
    Kinds, Router,
    ::testing::Values(
        Named{"softmax", {.slots = 2}},
        Named{"softmax_renormalized", {.slots = 4, .renormalize = true, .scale = 2.5F}},
        Named{"softmax_of_chosen", {.slots = 3, .score = RouterScore::softmax_of_chosen}},
        Named{"softmax_of_chosen_biased",
              {.slots = 3, .score = RouterScore::softmax_of_chosen, .scale = 0.5F},
              true},
        Named{"sigmoid", {.slots = 4, .score = RouterScore::sigmoid}},
        Named{"deepseek",
              {.slots = 4,
               .score = RouterScore::sigmoid,
               .renormalize = true,
               .scale = 2.5F,
               .groups = 4,
               .groups_kept = 2},
              true},
        Named{"groups_of_one", {.slots = 3, .groups = 12, .groups_kept = 5}}),
    [](const ::testing::TestParamInfo<Named>& info) { return std::string(info.param.name); });

constexpr std::int64_t tokens = 21, experts = 12;

Values row_of(const Values& values, std::int64_t row) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * experts);
  return {begin, begin + experts};
}

TEST_P(Router, ChoosesAndWeighsLikeASortInDoubles) {
  const auto& [name, options, biased] = GetParam();
  const GuardedTensor logits = random_tensor(DType::f32, {tokens, experts}, 1, -3, 3),
                      bias = random_tensor(DType::f32, {experts}, 2, -0.3, 0.3);
  const GuardedTensor slots(DType::i32, {tokens, options.slots}),
      weights(DType::f32, {tokens, options.slots});
  const Reference reference{options, biased ? bias.get() : Values{}};

  ops::route(stream(), slots, weights, logits, biased ? bias.view() : Tensor{}, options);

  Values chosen, weighed;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Values z = row_of(logits.get(), t);
    const auto places = reference.choice(z);
    const Values w = reference.weights(z, places);
    chosen.insert(chosen.end(), places.begin(), places.end());
    weighed.insert(weighed.end(), w.begin(), w.end());
  }
  EXPECT_EQ(slots.get(), chosen);
  expect_close(weights.get(), weighed, 3e-6, 1e-9);
}

TEST_P(Router, GradientsOfWeightsAndLossesMatchFiniteDifferences) {
  const auto& [name, options, biased] = GetParam();
  constexpr std::int64_t runs = 3, run = tokens / runs;
  constexpr double z_loss = 0.3, share = 1.0 / static_cast<double>(tokens), loss_scale = 4;
  const GuardedTensor logits = random_tensor(DType::f32, {tokens, experts}, 1, -3, 3),
                      bias = random_tensor(DType::f32, {experts}, 2, -0.3, 0.3),
                      dweights = random_tensor(DType::f32, {tokens, options.slots}, 3),
                      pull = random_tensor(DType::f32, {runs, experts}, 4, 0, 2);
  const GuardedTensor slots(DType::i32, {tokens, options.slots}),
      weights(DType::f32, {tokens, options.slots}), scale(DType::f32, {1}, {loss_scale});
  ops::route(stream(), slots, weights, logits, biased ? bias.view() : Tensor{}, options);
  const Values factors = dweights.get(), pulls = pull.get();
  for (const bool balanced : {false, true}) {
    for (const double z_factor : {0.0, z_loss}) {
      const GuardedTensor dlogits(DType::f32, {tokens, experts});
      Values expected;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const Reference reference{options, biased ? bias.get() : Values{}};
        const auto chosen = reference.choice(row_of(logits.get(), t));
        const auto loss = [&](const Values& z) {
          const Values w = reference.weights(z, chosen);
          double sum = 0, exps = 0;
          for (std::size_t j = 0; j < w.size(); ++j)
            sum += factors[at(t) * w.size() + j] * w[j];
          Values p = reference.scores(z);
          const double all = std::accumulate(p.begin(), p.end(), 0.0);
          for (std::size_t e = 0; e < p.size(); ++e) {
            if (balanced) sum += loss_scale * share * pulls[at(t / run * experts) + e] * p[e] / all;
            exps += std::exp(z[e]);
          }
          return sum + loss_scale * share * z_factor * std::log(exps) * std::log(exps);
        };
        const Values gradient = numeric_gradient(row_of(logits.get(), t), loss, 1e-5);
        expected.insert(expected.end(), gradient.begin(), gradient.end());
      }

      ops::route_backward(stream(), dlogits, dweights, slots, logits,
                          balanced ? pull.view() : Tensor{}, options,
                          {.z = static_cast<float>(z_factor),
                           .scale = static_cast<float>(share),
                           .loss_scale = scale.view().as<float>()});

      expect_close(dlogits.get(), expected, 1e-5, 2e-6);
    }
  }
}

TEST_P(Router, ATokenDoesNotDependOnOthers) {
  const auto& [name, options, biased] = GetParam();
  const GuardedTensor logits = random_tensor(DType::f32, {tokens, experts}, 1, -3, 3),
                      dweights = random_tensor(DType::f32, {tokens, options.slots}, 3);
  const auto run = [&](std::int64_t first, std::int64_t count) {
    const GuardedTensor slots(DType::i32, {count, options.slots}),
        weights(DType::f32, {count, options.slots}), dlogits(DType::f32, {count, experts});
    const Tensor z =
        logits.view().range(first * experts, count * experts).reshaped({count, experts});
    const Tensor d = dweights.view()
                         .range(first * options.slots, count * options.slots)
                         .reshaped({count, options.slots});
    ops::route(stream(), slots, weights, z, {}, options);
    ops::route_backward(stream(), dlogits, d, slots, z, {}, options, {.z = 0.1F});
    return std::pair{weights.elements<float>(), dlogits.elements<float>()};
  };

  const auto [weights, dlogits] = run(0, tokens);
  const auto [own_weights, own_dlogits] = run(5, 1);

  EXPECT_TRUE(
      std::equal(own_weights.begin(), own_weights.end(), weights.begin() + 5 * options.slots));
  EXPECT_TRUE(std::equal(own_dlogits.begin(), own_dlogits.end(), dlogits.begin() + 5 * experts));
}

TEST(RouterChoice, TiesGoToTheLowerExpertAndTheBestGroupFirst) {
  const GuardedTensor logits(DType::f32, {2, 4}, {0, 0, 0, 0, -1, 2, 2, -1});
  const GuardedTensor slots(DType::i32, {2, 2}), weights(DType::f32, {2, 2});

  ops::route(stream(), slots, weights, logits, {},
             {.slots = 2, .score = RouterScore::sigmoid, .groups = 2, .groups_kept = 1});

  EXPECT_EQ(slots.get(), (Values{0, 1, 1, 0}));
}

TEST(RouterChoice, WithBalancedRoutingExpertsTakeTurnsWeighedByTheirScores) {
  const GuardedTensor logits(DType::f32, {3, 4}, {9, 0, 0, 1, 0, 1, 0, 0, 2, 0, 0, 0});
  const GuardedTensor slots(DType::i32, {3, 2}), weights(DType::f32, {3, 2});

  ops::route(stream(), slots, weights, logits, {},
             {.slots = 2, .score = RouterScore::softmax_of_chosen, .balanced = true});

  EXPECT_EQ(slots.get(), (Values{0, 1, 2, 3, 0, 1}));
  EXPECT_NEAR(weights.get()[0], 1 / (1 + std::exp(-9.0)), 1e-6);
  EXPECT_NEAR(weights.get()[2], 0.5, 1e-6);
}

TEST(RouterChoice, NaNsAndInfinitiesAreBelowNumbersAndNeverOutOfRange) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const GuardedTensor logits(DType::f32, {4, 4},
                             {nan, 1, nan, -infinity, nan, nan, nan, nan, -infinity, -infinity,
                              -infinity, -infinity, infinity, nan, infinity, 0});
  for (const RouterScore score :
       {RouterScore::softmax, RouterScore::softmax_of_chosen, RouterScore::sigmoid}) {
    for (const std::int64_t groups : {1, 2}) {
      const GuardedTensor slots(DType::i32, {4, 3}), weights(DType::f32, {4, 3});

      ops::route(stream(), slots, weights, logits, {},
                 {.slots = 3, .score = score, .groups = groups, .groups_kept = groups});

      const Values chosen = slots.get();
      for (std::size_t t = 0; t < 4; ++t) {
        std::vector<double> own(chosen.begin() + static_cast<std::ptrdiff_t>(3 * t),
                                chosen.begin() + static_cast<std::ptrdiff_t>(3 * t + 3));
        std::sort(own.begin(), own.end());
        EXPECT_GE(own.front(), 0);
        EXPECT_LE(own.back(), 3);
        EXPECT_EQ(std::unique(own.begin(), own.end()), own.end());
      }
      if (score == RouterScore::softmax) continue;  // all of its scores are NaN
      EXPECT_EQ((Values{chosen[0], chosen[1], chosen[2]}), (Values{1, 3, 0}));
      EXPECT_EQ((Values{chosen[9], chosen[10], chosen[11]}), (Values{0, 2, 3}));
    }
  }
}

TEST(RouterChoice, TakesTheLimitsOfExpertsAndSlots) {
  constexpr std::int64_t most = ops::most_experts;
  const RouterOptions options{.slots = ops::most_slots, .groups = 8, .groups_kept = 4};
  const GuardedTensor logits = random_tensor(DType::f32, {2, most}, 1, -3, 3);
  const GuardedTensor slots(DType::i32, {2, options.slots}),
      weights(DType::f32, {2, options.slots});
  const Reference reference{options, {}};
  const Values z = logits.get();
  Values expected;
  for (std::int64_t t = 0; t < 2; ++t) {
    const auto chosen = reference.choice({z.begin() + t * most, z.begin() + (t + 1) * most});
    expected.insert(expected.end(), chosen.begin(), chosen.end());
  }

  ops::route(stream(), slots, weights, logits, {}, options);

  EXPECT_EQ(slots.get(), expected);
}

TEST(RouterChoice, RefusesImpossibleOptionsByTheirValues) {
  const auto run = [](std::int64_t count, const RouterOptions& options) {
    const GuardedTensor logits(DType::f32, {1, count});
    const GuardedTensor slots(DType::i32, {1, options.slots}),
        weights(DType::f32, {1, options.slots});
    ops::route(stream(), slots, weights, logits, {}, options);
  };

  expect_error([&] { run(4, {.slots = 5}); }, {"5 slots", "the 4 experts"});
  expect_error([&] { run(8, {.slots = 3, .groups = 4, .groups_kept = 1}); }, {"the 2 experts"});
  expect_error([&] { run(8, {.groups = 3}); }, {"8 experts in 3 groups"});
  expect_error([&] { run(8, {.groups = 2, .groups_kept = 3}); }, {"3 of 2 groups"});
  expect_error([&] { run(1025, {}); }, {"1025 experts", "1024"});
  expect_error([&] { run(64, {.slots = 33}); }, {"33 slots", "32"});
}

TEST(RouterBalance, CountsSlotsOfEachRunAndAddsThem) {
  constexpr std::int64_t runs = 3, slots = 2, count = 700;
  Values chosen;
  for (std::int64_t i = 0; i < runs * count * slots; ++i)
    chosen.push_back(static_cast<double>(i * i % 11));
  const GuardedTensor input(DType::i32, {runs * count, slots}, chosen);
  const GuardedTensor counts(DType::i32, {runs, experts});
  const GuardedTensor sums(DType::f32, {experts}, Values(experts, 5));
  Values expected(runs * experts), total(experts, 5);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    ++expected[i / (count * slots) * experts + static_cast<std::size_t>(chosen[i])];
    ++total[static_cast<std::size_t>(chosen[i])];
  }

  ops::expert_counts(stream(), counts, input);
  ops::add_counts(stream(), sums, counts);

  EXPECT_EQ(counts.get(), expected);
  EXPECT_EQ(sums.get(), total);
}

TEST(RouterBalance, PullIsTheDerivativeOfBothLosses) {
  const GuardedTensor counts(DType::i32, {2, 3}, {4, 0, 2, 1, 5, 0});
  const GuardedTensor load(DType::f32, {3}, {10, 20, 30}), none(DType::f32, {3}, Values(3));
  const GuardedTensor pull(DType::f32, {2, 3});
  const ops::BalanceLoss loss{.sequence = 0.5F, .batch = 0.25F};
  const auto expected = [](const Values& shares) {
    Values values;
    for (const double count : {4, 0, 2, 1, 5, 0})
      values.push_back(0.5 * 3 / (2 * 3) * count + 0.25 * shares[values.size() % 3]);
    return values;
  };

  ops::balance_pull(stream(), pull, counts, load, loss);
  expect_close(pull.get(), expected({0.5, 1, 1.5}), 1e-6, 0);
  ops::balance_pull(stream(), pull, counts, none, loss);
  expect_close(pull.get(), expected({1, 1, 1}), 1e-6, 0);
  expect_error([&] { ops::balance_pull(stream(), pull, counts, {}, loss); }, {"0.25", "load"});
}

TEST(RouterBalance, PaddingCountsNowhere) {
  constexpr std::int64_t run = 4, chosen = 2;
  const GuardedTensor starts(DType::i32, {2 * run}, {0, 0, 0, 3, 0, 2, 2, 2});
  const GuardedTensor slots(DType::i32, {2 * run, chosen},
                            {0, 1, 1, 2, 0, 2, 2, 1, 2, 0, 0, 1, 1, 2, 0, 2});
  const GuardedTensor counts(DType::i32, {2, 3}), pull(DType::f32, {2, 3});
  const auto* const padding = starts.view().as<std::int32_t>();

  ops::expert_counts(stream(), counts, slots, padding);
  ops::balance_pull(stream(), pull, counts, {}, {.sequence = 1});

  EXPECT_EQ(counts.get(), (Values{2, 2, 2, 1, 0, 1}));
  expect_close(pull.get(), {1, 1, 1, 1.5, 0, 1.5}, 1e-6, 0);
  const GuardedTensor logits = random_tensor(DType::f32, {2 * run, 3}, 1),
                      dweights(DType::f32, {2 * run, chosen}, Values(2 * run * chosen, 0.0)),
                      totals(DType::f64, {2}, {2, 5}), all(DType::f32, {2 * run, 3}),
                      real(DType::f32, {2 * run, 3});
  ops::route_backward(stream(), all, dweights, slots, logits, pull, {.slots = 2}, {.z = 0.5F});
  ops::route_backward(stream(), real, dweights, slots, logits, pull, {.slots = 2},
                      {.z = 0.5F, .totals = totals.view().as<double>(), .starts = padding});
  const Values given = starts.get();
  Values expected = all.get();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] *= given[i / 3] > 0 ? 0 : 2.0 / 5;
  expect_close(real.get(), expected, 1e-6, 1e-9);
}

TEST(RouterBalance, BiasMovesTowardsExpertsBelowTheMeanExactly) {
  const GuardedTensor bias(DType::f32, {4}, {0, 0, 0, 0.5});
  const GuardedTensor counts(DType::f32, {4}, {16777213, 16777214, 16777215, 16777214});

  ops::balance_bias(stream(), bias, counts, 0.25F);

  EXPECT_EQ(bias.get(), (Values{0.25, 0, -0.25, 0.5}));
}

class RouterLinear : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, RouterLinear,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

TEST_P(RouterLinear, LogitsAndTheirGradientsAreProductsInF32) {
  for (const auto& [n, e, c] : {std::array<std::int64_t, 3>{1, 1, 1}, {37, 12, 70}, {130, 65, 9}}) {
    const GuardedTensor x = random_tensor(GetParam(), {n, c}, 1),
                        w = random_tensor(DType::f32, {e, c}, 2),
                        bias = random_tensor(DType::f32, {e}, 3),
                        dlogits = random_tensor(DType::f32, {n, e}, 4),
                        dx = random_tensor(GetParam(), {n, c}, 5),
                        dw = random_tensor(DType::f32, {e, c}, 6),
                        db = random_tensor(DType::f32, {e}, 7);
    const GuardedTensor logits(DType::f32, {n, e});
    const Values xs = x.get(), ws = w.get(), d = dlogits.get();
    Values z, to_x = dx.get(), to_w = dw.get(), to_b = db.get();
    for (std::int64_t t = 0; t < n; ++t) {
      for (std::int64_t r = 0; r < e; ++r) {
        z.push_back(bias.get()[at(r)]);
        to_b[at(r)] += d[at(t * e + r)];
        for (std::int64_t i = 0; i < c; ++i) {
          z.back() += xs[at(t * c + i)] * ws[at(r * c + i)];
          to_x[at(t * c + i)] += d[at(t * e + r)] * ws[at(r * c + i)];
          to_w[at(r * c + i)] += d[at(t * e + r)] * xs[at(t * c + i)];
        }
      }
    }

    ops::router_logits(stream(), logits, x, w, bias);
    ops::router_backward_input(stream(), dx, dlogits, w);
    ops::router_backward_weight(stream(), dw, db, dlogits, x);

    expect_close(logits.get(), z, 1e-6, sum_rounding(c));
    expect_close(dx.get(), to_x, relative(), sum_rounding(e));
    expect_close(dw.get(), to_w, 1e-6, sum_rounding(n));
    expect_close(db.get(), to_b, 1e-6, sum_rounding(n));
  }
}

TEST_P(RouterLinear, LogitsOfATokenDoNotDependOnHowManyThereAre) {
  constexpr std::int64_t n = 90, e = 12, c = 300;
  const GuardedTensor x = random_tensor(GetParam(), {n, c}, 1),
                      w = random_tensor(DType::f32, {e, c}, 2);
  const GuardedTensor all(DType::f32, {n, e}), one(DType::f32, {1, e});

  ops::router_logits(stream(), all, x, w);
  ops::router_logits(stream(), one, x.view().range(77 * c, c).reshaped({1, c}), w);

  const std::vector<float> of_all = all.elements<float>(), alone = one.elements<float>();
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), of_all.begin() + 77 * e));
}

}  // namespace
}  // namespace trireme
