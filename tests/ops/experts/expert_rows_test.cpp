// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/expert_rows.h"

#include <numeric>

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using Values = std::vector<double>;

class ExpertRows : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, ExpertRows, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

// Different experts for each token, as a router gives them.
Values random_slots(std::int64_t tokens, std::int64_t slots, std::int64_t experts, unsigned seed) {
  std::mt19937 generator(seed);
  Values all(static_cast<std::size_t>(experts)), values;
  std::iota(all.begin(), all.end(), 0.0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::shuffle(all.begin(), all.end(), generator);
    values.insert(values.end(), all.begin(), all.begin() + slots);
  }
  return values;
}

struct Order {
  Values places, offsets;
};
Order order_of(const Values& slots, std::int64_t experts) {
  Order order{Values(slots.size()), {0}};
  double row = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == static_cast<double>(e)) order.places[i] = row++;
    }
    order.offsets.push_back(row);
  }
  return order;
}

TEST(ExpertSlots, AreOrderedByExpertThenToken) {
  struct Case {
    std::int64_t tokens, slots, experts;
  };
  for (const Case& c : {Case{1, 1, 1}, {5, 2, 3}, {700, 3, 9}, {2500, 1, 2}, {33, 8, 40}}) {
    const Values slots = random_slots(c.tokens, c.slots, c.experts, 7);
    const GuardedTensor input(DType::i32, {c.tokens, c.slots}, slots);
    const GuardedTensor places(DType::i32, {c.tokens, c.slots}),
        offsets(DType::i32, {c.experts + 1});
    const Order expected = order_of(slots, c.experts);

    ops::order_slots(stream(), places, offsets, input);

    EXPECT_EQ(places.get(), expected.places);
    EXPECT_EQ(offsets.get(), expected.offsets);
  }
}

TEST(ExpertSlots, MayAllBeOfOneExpert) {
  const GuardedTensor slots(DType::i32, {70, 1}, Values(70, 2));
  const GuardedTensor places(DType::i32, {70, 1}), offsets(DType::i32, {5});
  Values ascending(70);
  std::iota(ascending.begin(), ascending.end(), 0.0);

  ops::order_slots(stream(), places, offsets, slots);

  EXPECT_EQ(places.get(), ascending);
  EXPECT_EQ(offsets.get(), (Values{0, 0, 0, 70, 70}));
}

// Rows of 5 tokens with 3 slots.
struct Spread {
  static constexpr std::int64_t tokens = 5, slots = 3, spare = 2;
  Values places = order_of(random_slots(tokens, slots, 4, 3), 4).places;
  GuardedTensor table{DType::i32, {tokens, slots}, places};
  static constexpr std::int64_t rows = tokens * slots + spare;
};

TEST_P(ExpertRows, AreSpreadToTheirPlacesAndOthersStay) {
  const Spread s;
  for (const std::int64_t columns : {1, 7, 64, 300}) {
    const GuardedTensor x = random_tensor(GetParam(), {s.tokens, columns}, 1);
    const GuardedTensor rows(GetParam(), {s.rows, columns},
                             Values(static_cast<std::size_t>(s.rows * columns), 3));
    const Values from = x.get();
    Values expected = rows.get();
    for (std::size_t i = 0; i < s.places.size(); ++i) {
      for (std::int64_t c = 0; c < columns; ++c)
        expected[static_cast<std::size_t>(static_cast<std::int64_t>(s.places[i]) * columns + c)] =
            from[static_cast<std::size_t>(static_cast<std::int64_t>(i) / s.slots * columns + c)];
    }

    ops::spread_rows(stream(), rows, x, s.table);

    EXPECT_EQ(rows.get(), expected);
  }
}

TEST_P(ExpertRows, AreCollectedWithWeightsAndResidual) {
  const Spread s;
  for (const std::int64_t columns : {1, 7, 64, 300}) {
    for (const bool weighted : {false, true}) {
      for (const bool added : {false, true}) {
        const GuardedTensor rows = random_tensor(GetParam(), {s.rows, columns}, 1),
                            weights = random_tensor(DType::f32, {s.tokens, s.slots}, 2);
        const GuardedTensor y = random_tensor(GetParam(), {s.tokens, columns}, 3);
        const Values from = rows.get(), factors = weights.get();
        Values expected = added ? y.get() : Values(y.get().size());
        for (std::size_t i = 0; i < s.places.size(); ++i) {
          for (std::int64_t c = 0; c < columns; ++c)
            expected[static_cast<std::size_t>(static_cast<std::int64_t>(i) / s.slots * columns +
                                              c)] +=
                (weighted ? factors[i] : 1) *
                from[static_cast<std::size_t>(static_cast<std::int64_t>(s.places[i]) * columns +
                                              c)];
        }

        ops::collect_rows(stream(), y, rows, s.table, weighted ? weights.view() : Tensor{},
                          added ? y.view() : Tensor{});

        expect_close(y.get(), expected, relative(), 1e-6);
      }
    }
  }
}

TEST_P(ExpertRows, SumsOfSlotsDoNotDependOnWhereRowsLie) {
  constexpr std::int64_t tokens = 4, slots = 3, columns = 40;
  const Values here = order_of(random_slots(tokens, slots, 5, 1), 5).places;
  const Values there = order_of(random_slots(tokens, slots, 5, 2), 5).places;
  const Values x = random_values(tokens * slots * columns, 3, GetParam());
  std::vector<std::vector<unsigned char>> results;
  for (const Values& places : {here, there}) {
    Values moved(x.size());
    for (std::size_t i = 0; i < places.size(); ++i)
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(i * columns), columns,
                  moved.begin() + static_cast<std::ptrdiff_t>(places[i] * columns));
    const GuardedTensor rows(GetParam(), {tokens * slots, columns}, moved),
        table(DType::i32, {tokens, slots}, places);
    const GuardedTensor weights = random_tensor(DType::f32, {tokens, slots}, 4);
    const GuardedTensor y(GetParam(), {tokens, columns});

    ops::collect_rows(stream(), y, rows, table, weights, {});

    results.push_back(y.raw());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(ExpertValues, ComeBackFromTheirPlaces) {
  const Spread s;
  const GuardedTensor x = random_tensor(DType::f32, {s.tokens, s.slots}, 1);
  const GuardedTensor values(DType::f32, {s.rows}, Values(s.rows, 3.0)),
      back(DType::f32, {s.tokens, s.slots});
  Values expected(s.rows, 3.0);
  for (std::size_t i = 0; i < s.places.size(); ++i)
    expected[static_cast<std::size_t>(s.places[i])] = x.get()[i];

  ops::spread_values(stream(), values, x, s.table);
  ops::collect_values(stream(), back, values, s.table);

  EXPECT_EQ(values.get(), expected);
  EXPECT_EQ(back.get(), x.get());
}

TEST(ExpertValues, RefuseFewerRowsThanSlots) {
  const GuardedTensor x(DType::f32, {5, 3}), places(DType::i32, {5, 3}), values(DType::f32, {14});

  expect_error([&] { ops::spread_values(stream(), values, x, places); },
               {"spread_values", "(14)", "15 rows"});
}

}  // namespace
}  // namespace trireme
