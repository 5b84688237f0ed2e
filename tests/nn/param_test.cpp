// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param.h"

#include <gmock/gmock.h>

#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

using test::values_of;

class ParamStoreTest : public test::CpuFixture {};

ParamSpec weight(const std::string& name, const Shape& shape, bool decay = false) {
  return {.name = name, .shape = shape, .init = Init::normal(1.0F), .decay = decay, .matrix = true};
}

TEST_F(ParamStoreTest, OrdersTheArenaAsBackwardFinishesThemWithStatisticsLast) {
  ParamStore store;
  const ParamId first = store.declare(weight("first", {3, 5}));
  const ParamId statistic =
      store.declare({.name = "running", .shape = {7}, .kind = ParamKind::statistic});
  const ParamId last = store.declare(weight("last", {2}));

  store.allocate(*device_, DType::f32, true);

  EXPECT_EQ(store.offset(last), 0);
  EXPECT_LT(store.offset(last), store.offset(first));
  EXPECT_EQ(store.offset(statistic), store.weight_elements());
  EXPECT_EQ(store.parameter_count(), 17);
}

TEST_F(ParamStoreTest, AlignsEveryParameterToACacheLineAndKeepsPaddingZero) {
  ParamStore store;
  for (int i = 1; i <= 5; ++i)
    store.declare(weight("w" + std::to_string(i), {i}));
  store.allocate(*device_, DType::f32, true);

  store.initialize(*compute_, 1);

  std::vector<bool> covered(static_cast<std::size_t>(store.element_count()));
  for (const ParamId id : store.order()) {
    EXPECT_EQ(store.offset(id) % 16, 0);
    for (std::int64_t i = 0; i < store.master(id).count(); ++i) {
      covered[static_cast<std::size_t>(store.offset(id) + i)] = true;
    }
  }
  const auto all = values_of<float>(store.masters());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(covered[i], all[i] != 0.0F) << "element " << i;
}

TEST_F(ParamStoreTest, TreatsTheSameNameDeclaredTwiceAsOneTiedParameter) {
  ParamStore store;
  const ParamId a = store.declare(weight("table", {8, 4}));
  const ParamId b = store.declare(weight("table", {8, 4}));

  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(store.specs().size(), 1U);
}

TEST_F(ParamStoreTest, RefusesATiedParameterOfAnotherShapeNamingBoth) {
  ParamStore store;
  store.declare(weight("table", {8, 4}));

  EXPECT_THAT(
      [&] {
        store.declare(weight("table", {4, 8}));
      },
      testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("table"),
                                                   testing::HasSubstr("(8, 4)"),
                                                   testing::HasSubstr("(4, 8)"))));
}

TEST_F(ParamStoreTest, RefusesDeclarationsAfterAllocation) {
  ParamStore store;
  store.declare(weight("a", {1}));
  store.allocate(*device_, DType::f32, false);

  EXPECT_THROW(store.declare(weight("b", {1})), Error);
}

TEST_F(ParamStoreTest, DrawsTheSameValuesWhateverElseIsDeclared) {
  ParamStore alone, together;
  const ParamId id = alone.declare(weight("blocks.3.weight", {33}));
  together.declare(weight("other", {129}));
  const ParamId id_together = together.declare(weight("blocks.3.weight", {33}));
  together.declare(weight("another", {3}));
  alone.allocate(*device_, DType::f32, false);
  together.allocate(*device_, DType::f32, false);

  alone.initialize(*compute_, 7);
  together.initialize(*compute_, 7);

  EXPECT_EQ(values_of<float>(alone.master(id)), values_of<float>(together.master(id_together)));
}

TEST_F(ParamStoreTest, MergesNeighboursThatTheOptimizerTreatsAlikeIntoOneSegment) {
  ParamStore store;
  store.declare(weight("c", {16}, true));
  store.declare(weight("b", {16}, true));
  store.declare(weight("a", {16}, false));
  store.declare({.name = "s", .shape = {3}, .kind = ParamKind::statistic});
  store.allocate(*device_, DType::f32, true);

  ASSERT_EQ(store.segments().size(), 3U);
  EXPECT_FALSE(store.segments()[0].decay);
  EXPECT_TRUE(store.segments()[1].decay);
  EXPECT_EQ(store.segments()[1].count, 32);
  EXPECT_EQ(store.segments()[2].kind, ParamKind::statistic);
}

TEST_F(ParamStoreTest, GivesMatricesInTheComputeTypeAndTheRestInFp32) {
  ParamStore store;
  const ParamId matrix = store.declare(weight("matrix", {4, 4}));
  const ParamId bias = store.declare({.name = "bias", .shape = {4}, .init = Init::constant(0.5F)});
  store.allocate(*device_, DType::bf16, true);

  store.initialize(*compute_, 3);

  EXPECT_EQ(store.compute(bias).dtype, DType::f32);
  ASSERT_EQ(store.compute(matrix).dtype, DType::bf16);
  const auto master = values_of<float>(store.master(matrix));
  const auto rounded = values_of<bf16>(store.compute(matrix));
  for (std::size_t i = 0; i < master.size(); ++i)
    EXPECT_EQ(rounded[i].bits, bf16(master[i]).bits);
}

}  // namespace
}  // namespace trireme
