// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param_store.h"

#include <map>

#include "tests/support/cpu_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/sample_params.h"

namespace trireme {
namespace {

using test::values_of;

class ParamStoreTest : public test::CpuFixture {
 protected:
  // Whole parameters, assembled from the slices of all tensor and data ranks.
  std::map<std::string, std::vector<float>> initialized(int tensor, int blocks, int stage, int data,
                                                        DType compute = DType::f32) {
    std::map<std::string, std::vector<float>> whole;
    for (int rank = 0; rank < tensor * data; ++rank) {
      ParamStore store(TensorSplit{.ranks = tensor, .rank = rank % tensor, .blocks = blocks},
                       /*separate_ties=*/true);
      test::declare_sample(store);
      store.allocate(*device_, {.compute = compute,
                                .zero = {.stage = stage, .ranks = data, .rank = rank / tensor},
                                .bucket_elements = 100});
      store.initialize(*compute_, 7);
      for (const ParamSpec& spec : store.layout().specs())
        whole[spec.name].resize(static_cast<std::size_t>(spec.shape.count()));
      for (const Bucket& bucket : store.layout().buckets()) {
        const float* const own = store.masters().owned(bucket).as<float>();
        test::for_each_owned(store.layout(), bucket,
                             [&](std::int64_t place, const ParamSpec& spec, std::int64_t i) {
                               whole[spec.name][static_cast<std::size_t>(i)] = own[place];
                             });
      }
    }
    return whole;
  }
};

TEST_F(ParamStoreTest, StartsFromTheSameTensorsHoweverTheyAreSplitAndSliced) {
  const auto expected = initialized(1, 1, 0, 1);
  for (const float value : expected.at("b.qkv.weight"))
    ASSERT_NE(value, 0.0F);

  for (const int stage : {0, 1, 2, 3}) {
    for (const int data : {1, 3}) {
      for (const auto& [tensor, blocks] : {std::pair(1, 1), {1, 4}, {2, 2}, {2, 8}, {4, 4}}) {
        for (const DType dtype : {DType::f32, DType::bf16}) {
          EXPECT_EQ(initialized(tensor, blocks, stage, data, dtype), expected)
              << "stage " << stage << ", " << data << " data ranks, " << tensor << " tensor ranks, "
              << blocks << " blocks, " << name_of(dtype);
        }
      }
    }
  }
}

TEST_F(ParamStoreTest, StartsCopiesOfATiedParameterAlike) {
  const auto values = initialized(1, 1, 0, 1);

  EXPECT_EQ(values.at("head"), values.at("table"));
}

TEST_F(ParamStoreTest, DrawsTheSameValuesBesideAnyOtherParameters) {
  ParamStore alone, together;
  const ParamSpec spec{.name = "blocks.3.weight", .shape = {33}, .init = Init::uniform(1)};
  const ParamId id = alone.declare(spec);
  together.declare({.name = "other", .shape = {129}});
  const ParamId id_together = together.declare(spec);
  alone.allocate(*device_, {});
  together.allocate(*device_, {});

  alone.initialize(*compute_, 7);
  together.initialize(*compute_, 7);

  EXPECT_EQ(values_of<float>(alone.master(id)), values_of<float>(together.master(id_together)));
}

TEST_F(ParamStoreTest, CountsParametersDeclaredOutsideOfLayersAsOneLayer) {
  ParamStore store;
  store.declare({.name = "w", .shape = {4}, .init = Init::constant(3)});
  store.allocate(*device_, {.zero = {.stage = 3, .ranks = 1, .rank = 0}});

  store.initialize(*compute_, 1);

  const Tensor own = store.masters().owned(store.layout().buckets()[0]);
  EXPECT_EQ(values_of<float>(own.range(0, 4)), std::vector<float>(4, 3.0F));
}

TEST_F(ParamStoreTest, KeepsPaddingZero) {
  ParamStore store({}, true);
  test::declare_sample(store);
  store.allocate(*device_, {.zero = {.stage = 1, .ranks = 3, .rank = 0}, .bucket_elements = 100});

  store.initialize(*compute_, 1);

  std::vector<bool> covered(static_cast<std::size_t>(store.layout().elements()));
  for (const ParamId id : store.layout().order()) {
    for (std::int64_t i = 0; i < store.master(id).count(); ++i)
      covered[static_cast<std::size_t>(store.layout().offset(id) + i)] = true;
  }
  const auto all = values_of<float>(store.masters().whole());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(covered[i], all[i] != 0.0F) << "element " << i;
}

TEST_F(ParamStoreTest, DrawsTheSameExpertsOnEveryGrid) {
  std::map<int, std::vector<float>> wholes;
  for (const int ranks : {1, 2, 8}) {
    for (int rank = 0; rank < ranks; ++rank) {
      ParamStore store({{}, {ranks, rank, ranks}}, true);
      test::declare_sample(store);
      store.allocate(*device_, {});
      store.initialize(*compute_, 7);
      const Tensor own = store.master(store.layout().find("experts.weight"));
      EXPECT_EQ(own.shape, ranks == 1 ? (Shape{8, 7, 5}) : (Shape{1, 8 / ranks, 7, 5}));
      const auto values = values_of<float>(own);
      wholes[ranks].insert(wholes[ranks].end(), values.begin(), values.end());
    }
  }

  EXPECT_EQ(wholes[2], wholes[1]);
  EXPECT_EQ(wholes[8], wholes[1]);
}

// Two data ranks share experts: X elements of a rank's experts, L partial sums, 4 bytes each.
//   stages 0, 1   L X more than one source has      stages 2, 3   two units more
TEST_F(ParamStoreTest, KeepsGradientsOfExpertsApartByTheirSource) {
  for (const int stage : {0, 2}) {
    const auto make = [&](int sources) {
      ParamStore store({{}, {2, 1, 2}}, true);
      test::declare_sample(store);
      store.allocate(*device_, {.training = true,
                                .gradient_levels = 3,
                                .leaves = {.count = sources, .experts = true},
                                .zero = {.stage = stage, .ranks = 2}});
      return store;
    };
    const ParamStore one = make(1);
    ParamStore two = make(2);
    const ParamLayout& layout = two.layout();
    const ParamId experts = layout.find("experts.weight"), dense = layout.find("c.weight");
    if (stage >= 2) two.place_gradients(layout.unit_of(experts), 0);

    EXPECT_EQ(one.sources(experts), 1);
    EXPECT_EQ(two.sources(experts), 2);
    EXPECT_EQ(two.sources(dense), 1);
    EXPECT_EQ(two.gradient(experts, 0).shape, two.gradient(experts, 1).shape);
    EXPECT_NE(two.gradient(experts, 0).data, two.gradient(experts, 1).data);
    std::int64_t widest = 0;
    for (int unit = 0; unit < layout.unit_count(); ++unit)
      widest = std::max(widest, layout.unit_weights(unit).count);
    const std::int64_t more = stage == 0 ? 3 * layout.expert_elements() : 2 * widest;
    EXPECT_EQ(two.gradient_bytes() - one.gradient_bytes(),
              static_cast<std::size_t>(more) * sizeof(float));
    test::expect_error(
        ExitCode::internal, [&] { static_cast<void>(two.gradient(experts, 2)); },
        "experts.weight has 2 gradients");
  }
}

TEST_F(ParamStoreTest, GivesMatricesInTheComputeTypeAndTheRestInFp32) {
  ParamStore store;
  const ParamId matrix = store.declare(
      {.name = "matrix", .shape = {4, 4}, .init = Init::normal(1.0F), .matrix = true});
  const ParamId bias = store.declare({.name = "bias", .shape = {4}, .init = Init::constant(0.5F)});
  store.allocate(*device_, {.compute = DType::bf16, .training = true});

  store.initialize(*compute_, 3);

  EXPECT_EQ(store.compute(bias).dtype, DType::f32);
  ASSERT_EQ(store.compute(matrix).dtype, DType::bf16);
  const auto master = values_of<float>(store.master(matrix));
  const auto rounded = values_of<bf16>(store.compute(matrix));
  for (std::size_t i = 0; i < master.size(); ++i)
    EXPECT_EQ(rounded[i].bits, bf16(master[i]).bits);
}

// N elements of weights, S of statistics, W weights of the widest layer, D ranks, L partial sums,
// in bytes of f32 (2 more for each element of a bf16 copy):
//   stages 0, 1   parameters N + S                      gradients L (N + S)
//   stage  2      parameters N + S                      gradients L (N / D + S) + 2 W
//   stage  3      parameters N / D + S + 3 W            gradients L (N / D + S) + 2 W
// Of matrices with copies stages 1 and 2 have N / D parameters.
TEST_F(ParamStoreTest, UsesTheMemoryOfItsZeroStage) {
  constexpr int ranks = 4, levels = 3;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<std::size_t> taken;
    for (const int stage : {0, 1, 2, 3}) {
      const std::size_t before = device_->memory_use(MemoryKind::device).current_bytes;
      ParamStore store;
      for (int unit = 0; unit < 40; ++unit) {
        store.open_unit();
        store.declare(
            {.name = "w" + std::to_string(unit), .shape = {64 + unit % 2 * 64}, .matrix = true});
      }
      store.declare({.name = "s", .shape = {48}, .kind = ParamKind::statistic});
      store.allocate(*device_, {.compute = dtype,
                                .training = true,
                                .gradient_levels = levels,
                                .zero = {.stage = stage, .ranks = ranks, .rank = 1}});
      constexpr std::size_t n = 40 * 96, s = 48, w = 128;
      const std::size_t rounded = dtype == DType::bf16 ? 2 : 0;
      const std::size_t kept = stage >= 3 || (stage >= 1 && rounded > 0) ? n / ranks + s : n + s;
      const std::size_t params =
          4 * kept + (stage >= 3 ? 3 * w * (4 + rounded) : rounded * (n + s));
      const std::size_t gradients =
          4 * (stage >= 2 ? levels * (n / ranks + s) + 2 * w : levels * (n + s));

      taken.push_back(device_->memory_use(MemoryKind::device).current_bytes - before);

      EXPECT_EQ(taken.back(), params + gradients) << "stage " << stage;
    }
    EXPECT_EQ(taken[1] < taken[0], dtype == DType::bf16);
    EXPECT_LT(taken[2], taken[1]);
    EXPECT_LT(taken[3], taken[2]);
  }
}

TEST_F(ParamStoreTest, HasNoGradientsUnlessItTrains) {
  ParamStore store;
  const ParamId id = store.declare({.name = "w", .shape = {4}});
  store.allocate(*device_, {.training = false});

  EXPECT_THROW(static_cast<void>(store.gradient(id)), Error);
}

TEST_F(ParamStoreTest, AccumulatesIntoTheSelectedLevelOfThoseLayersAndThatKindOnly) {
  ParamStore store;
  test::declare_sample(store, 1, 4);
  store.allocate(*device_, {.training = true, .gradient_levels = 2});
  const auto offset_in = [&](const char* name, int level) {
    return store.gradient(store.layout().find(name)).as<float>() -
           store.gradients().whole(level).as<float>();
  };

  store.select_level({0, 2}, ParamKind::weight, 1);

  EXPECT_EQ(offset_in("a.weight", 1), store.layout().offset(store.layout().find("a.weight")));
  EXPECT_EQ(offset_in("b.qkv.bias", 1), store.layout().offset(store.layout().find("b.qkv.bias")));
  EXPECT_EQ(offset_in("c.weight", 0), store.layout().offset(store.layout().find("c.weight")));
  EXPECT_EQ(offset_in("a.running", 0), store.layout().offset(store.layout().find("a.running")));
}

TEST_F(ParamStoreTest, RefusesToReadUnplacedSlicesNamingTheLayer) {
  ParamStore store;
  test::declare_sample(store, 1, 4);
  store.allocate(*device_, {.training = true, .zero = {.stage = 3, .ranks = 2, .rank = 0}});
  const ParamId id = store.layout().find("c.weight");  // of unit 2

  test::expect_error(
      ExitCode::internal, [&] { static_cast<void>(store.master(id)); }, "parameters of unit 2");
  test::expect_error(
      ExitCode::internal, [&] { static_cast<void>(store.gradient(id)); }, "gradients of unit 2");
  EXPECT_THROW(static_cast<void>(store.masters().whole()), Error);
  EXPECT_THROW(static_cast<void>(store.gradients().whole()), Error);

  store.place_params(2, 0);
  EXPECT_EQ(store.master(id).count(), 31);
  store.place_params(1, 0);  // takes ownership of the buffer
  EXPECT_THROW(static_cast<void>(store.master(id)), Error);
}

TEST_F(ParamStoreTest, KeepsInStagesOneAndTwoOnlyTheOwnSlicesOfMatricesThatAreRounded) {
  for (const int stage : {1, 2}) {
    ParamStore store;
    test::declare_sample(store, 1, 4);
    store.allocate(*device_,
                   {.compute = DType::bf16, .zero = {.stage = stage, .ranks = 2, .rank = 0}});
    const ParamLayout& layout = store.layout();

    EXPECT_EQ(store.compute(layout.find("a.weight")).count(), 7 * 24);
    EXPECT_EQ(store.master(layout.find("a.bias")).count(), 24);
    EXPECT_EQ(store.master(layout.find("a.running")).count(), 9);
    test::expect_error(
        ExitCode::internal, [&] { static_cast<void>(store.master(layout.find("a.weight"))); },
        "parameters of unit 0");
    EXPECT_THROW(static_cast<void>(store.masters().whole()), Error);
  }
}

}  // namespace
}  // namespace trireme
