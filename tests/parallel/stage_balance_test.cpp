// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/stage_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/support/expect_error.h"

namespace trireme {
namespace {

double dearest(const std::vector<double>& costs, const std::vector<int>& lengths) {
  double most = 0;
  auto first = costs.begin();
  for (const int length : lengths) {
    most = std::max(most, std::accumulate(first, first + length, 0.0));
    first += length;
  }
  return most;
}

// The cheapest dearest run over every cut there is.
double by_trying_all(const std::vector<double>& costs, int parts) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> lengths;
  const std::function<void(int, int)> cut = [&](int left, int layers) {
    if (left == 1) {
      lengths.push_back(layers);
      best = std::min(best, dearest(costs, lengths));
      lengths.pop_back();
      return;
    }
    for (int length = 1; length <= layers - left + 1; ++length) {
      lengths.push_back(length);
      cut(left - 1, layers - length);
      lengths.pop_back();
    }
  };
  cut(parts, static_cast<int>(costs.size()));
  return best;
}

TEST(Balance, IsAsGoodAsTheBestOfAllCuts) {
  unsigned state = 12345;
  const auto next = [&state](unsigned below) {
    state = state * 1664525U + 1013904223U;
    return (state >> 8) % below;
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<double> costs(1 + next(10));
    for (double& cost : costs)
      cost = round % 2 == 0 ? next(5) : 0.001 * next(100000);
    for (int parts = 1; parts <= static_cast<int>(costs.size()); ++parts) {
      const std::vector<int> lengths = balance(costs, parts);

      ASSERT_EQ(lengths.size(), static_cast<std::size_t>(parts));
      EXPECT_GE(*std::ranges::min_element(lengths), 1);
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), 0), static_cast<int>(costs.size()));
      const double best = by_trying_all(costs, parts);
      EXPECT_NEAR(dearest(costs, lengths), best, 1e-8 * best + 1e-12);
    }
  }
}

TEST(Balance, GivesEarlierRunsTheRest) {
  EXPECT_EQ(balance(std::vector<double>(12, 0.1), 4), (std::vector{3, 3, 3, 3}));
  EXPECT_EQ(balance(std::vector<double>(14, 0.1), 4), (std::vector{4, 4, 3, 3}));
  EXPECT_EQ(balance(std::vector<double>(5, 0.0), 2), (std::vector{4, 1}));
}

TEST(Balance, KeepsTheOtherRunsEvenBesideAnExpensiveLayer) {
  EXPECT_EQ(balance(std::vector<double>{10, 1, 1, 1, 1, 1, 1}, 3), (std::vector{1, 3, 3}));
  EXPECT_EQ(balance(std::vector<double>{1, 1, 1, 1, 8}, 2), (std::vector{4, 1}));
}

TEST(Balance, RefusesMorePartsThanLayersAndInvalidCosts) {
  const auto cut = [](std::vector<double> costs, int parts) {
    return [=] { (void)balance(costs, parts); };
  };
  test::expect_error(ExitCode::internal, cut({1, 2}, 3), "2 layers cannot fill 3 stages");
  test::expect_error(ExitCode::internal, cut({1, 2}, 0), "cannot fill 0");
  test::expect_error(ExitCode::internal, cut({1, -2}, 1), "layer 1 costs -2");
  test::expect_error(ExitCode::internal, cut({std::numeric_limits<double>::quiet_NaN()}, 1),
                     "layer 0");
}

}  // namespace
}  // namespace trireme
