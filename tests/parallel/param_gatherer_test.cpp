// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/param_gatherer.h"

#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"
#include "tests/support/slow_communicator.h"

namespace trireme {
namespace {

constexpr int gathered_units = 6;

// The sample parameters sliced over the world, and the updates of an optimizer. `sharing` ranks in
// a row share experts; `experts` joins those with the same ones.
class SlicedParams {
 public:
  SlicedParams(Device& device, Communicator& group, Stream& compute, Stream& comm, int stage,
               DType dtype, int sharing, Communicator& experts)
      : group_(group),
        experts_(experts),
        store_({{}, {sharing, group.rank() % sharing, sharing}}, /*separate_ties=*/true),
        comm_(comm) {
    test::declare_sample(store_);
    store_.allocate(device, {.compute = dtype,
                             .zero = {.stage = stage, .ranks = group.size(), .rank = group.rank()},
                             .bucket_elements = 150});
    store_.initialize(compute, 1);
    gatherer_ = std::make_unique<ParamGatherer>(device, group_, store_, compute, comm, nullptr,
                                                sharing > 1 ? &experts_ : nullptr);
  }

  // Sets every parameter to the values of `version`, only in this rank's slices.
  void update(std::uint64_t version) {
    version_ = version;
    comm_.synchronize();
    const ParamLayout& layout = store_.layout();
    const int stage = store_.options().zero.stage;
    for (const Bucket& bucket : layout.buckets()) {
      if (bucket.kind != ParamKind::weight) continue;
      const Tensor kept = store_.masters().kept(bucket);
      std::fill_n(kept.as<float>(), kept.count(), std::numeric_limits<float>::quiet_NaN());
      test::fill_owned(layout, bucket, store_.masters().owned(bucket),
                       [&](const ParamSpec& spec, std::int64_t i) { return value(spec, i); });
      if (stage < 3 && bucket.matrices) store_.refresh_own(comm_, bucket);
    }
    gatherer_->after_update();
  }
  // Every parameter of the unit is whole, also as kernels read it.
  void expect_whole(int unit) const {
    for (const ParamId id : store_.layout().order()) {
      const ParamSpec& spec = store_.layout().spec(id);
      if (store_.layout().unit_of(id) != unit || spec.kind != ParamKind::weight) continue;
      const Tensor compute = store_.compute(id);
      ASSERT_EQ(compute.dtype, spec.matrix ? store_.options().compute : DType::f32);
      const std::int64_t first = store_.layout().split(spec).rank * compute.count();
      for (std::int64_t i = 0; i < compute.count(); ++i) {
        const float wanted = value(spec, first + i);
        if (compute.dtype == DType::f32) {
          ASSERT_EQ(compute.as<float>()[i], wanted) << spec.name << " " << i;
        } else {
          ASSERT_EQ(compute.as<bf16>()[i].bits, bf16(wanted).bits) << spec.name << " " << i;
        }
      }
    }
  }
  void use(int unit, int next) {
    SCOPED_TRACE(fmt::format("unit {}, then {}", unit, next));
    gatherer_->before_use(unit, next);
    expect_whole(unit);
    comm_.synchronize();  // completes early gathers
    expect_whole(unit);
  }
  void use_forward() {
    for (int unit = 0; unit < gathered_units; ++unit)
      use(unit, unit + 1 < gathered_units ? unit + 1 : -1);
  }
  void use_backward() {
    for (int unit = gathered_units; unit-- > 0;)
      use(unit, unit - 1);
  }
  [[nodiscard]] ParamStore& store() { return store_; }
  [[nodiscard]] ParamGatherer& gatherer() { return *gatherer_; }

 private:
  [[nodiscard]] float value(const ParamSpec& spec, std::int64_t i) const {
    return test::sample_value(spec.name, i, version_);
  }

  test::SlowCommunicator group_, experts_;
  ParamStore store_;
  Stream& comm_;
  std::unique_ptr<ParamGatherer> gatherer_;
  std::uint64_t version_ = 0;
};

struct GatherCase {
  int stage = 0;
  DType dtype = DType::f32;
};

class ParamGathererTest : public test::MpiTest, public testing::WithParamInterface<GatherCase> {
 protected:
  [[nodiscard]] std::unique_ptr<SlicedParams> make(const GatherCase& what = GetParam(),
                                                   int sharing = 1) const {
    auto& experts = experts_[sharing];
    if (!experts) experts = world().split(rank() % sharing, rank() / sharing, "same experts");
    return std::make_unique<SlicedParams>(device(), world(), compute(), comm_stream(), what.stage,
                                          what.dtype, sharing, *experts);
  }

 private:
  mutable std::map<int, std::unique_ptr<Communicator>> experts_;
};

std::string name_of_case(const testing::TestParamInfo<GatherCase>& info) {
  return fmt::format("Stage{}{}", info.param.stage, name_of(info.param.dtype));
}

TEST_P(ParamGathererTest, BringsEveryUpdateToEveryRankInTheOrderOfUse) {
  const auto params = make();

  for (const std::uint64_t version : {1U, 2U, 3U}) {
    params->update(version);
    params->use_forward();
    params->use_backward();
  }
}

TEST_P(ParamGathererTest, BringsExpertsToTheRanksThatHoldThem) {
  for (const int sharing : {2, 4}) {
    if (size() % sharing != 0) continue;
    const auto params = make(GetParam(), sharing);

    for (const std::uint64_t version : {1U, 2U}) {
      params->update(version);
      params->use_forward();
      params->use_backward();
    }
  }
}

TEST_P(ParamGathererTest, ServesLayersInAnyOrder) {
  const auto params = make();
  std::mt19937 engine(5);  // the same on every rank
  const auto draw = [&](int from) {
    return from + static_cast<int>(engine() % static_cast<unsigned>(gathered_units - from));
  };

  for (const std::uint64_t version : {1U, 2U}) {
    params->update(version);
    for (int i = 0; i < 60; ++i) {
      const int unit = draw(0), next = draw(-1);
      params->use(unit, next);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, ParamGathererTest,
                         testing::Values(GatherCase{1, DType::f32}, GatherCase{1, DType::bf16},
                                         GatherCase{2, DType::f32}, GatherCase{2, DType::bf16},
                                         GatherCase{3, DType::f32}, GatherCase{3, DType::bf16}),
                         name_of_case);

TEST_F(ParamGathererTest, FinishMakesEverythingWholeBelowStageThree) {
  for (const int stage : {1, 2}) {
    const auto params = make({stage, DType::bf16});
    params->update(1);

    params->gatherer().finish();

    for (int unit = 0; unit < gathered_units; ++unit)
      params->expect_whole(unit);
  }
}

TEST_F(ParamGathererTest, RanksReadInitialWeightsBeforeTheFirstUpdate) {
  ParamStore whole({}, /*separate_ties=*/true);
  test::declare_sample(whole);
  whole.allocate(device(), {.compute = DType::bf16});
  whole.initialize(compute(), 1);
  for (const int stage : {1, 2}) {
    const auto params = make({stage, DType::bf16});

    for (int unit = 0; unit < gathered_units; ++unit)
      params->gatherer().before_use(unit, -1);

    for (const ParamSpec& spec : whole.layout().specs()) {
      const Tensor expected = whole.compute(whole.layout().find(spec.name)),
                   found = params->store().compute(params->store().layout().find(spec.name));
      EXPECT_EQ(std::memcmp(found.data, expected.data, expected.bytes()), 0) << spec.name;
    }
  }
}

// Bytes of weights, with padding, that one forward and backward gather.
class GatheredVolume : public ParamGathererTest {
 protected:
  [[nodiscard]] std::uint64_t gathered(SlicedParams& params) const {
    const CommStats before = world().stats();
    params.update(1);
    params.use_forward();
    params.use_backward();
    CommStats after = world().stats();
    VerbStats& gathers = after.verbs[static_cast<std::size_t>(Verb::all_gather)];
    const std::uint64_t bytes = gathers.bytes - before[Verb::all_gather].bytes;
    gathers = before[Verb::all_gather];
    EXPECT_EQ(after.verbs, before.verbs);  // no other calls
    return bytes;
  }
};

TEST_F(GatheredVolume, IsZeroWithoutSlices) {
  const auto params = make({0, DType::f32});
  const CommStats before = world().stats();

  params->gatherer().after_update();
  params->gatherer().before_use(0, 1);
  params->gatherer().finish();

  EXPECT_EQ(world().stats().verbs, before.verbs);
}

TEST_F(GatheredVolume, IsAllWeightsOnceBelowStageThree) {
  for (const int stage : {1, 2}) {
    const auto params = make({stage, DType::f32});
    const auto weights = static_cast<std::uint64_t>(params->store().layout().weight_elements());

    EXPECT_EQ(gathered(*params), weights * sizeof(float)) << "stage " << stage;
  }
}

// Every layer forward, and backward those that are no longer in a buffer.
TEST_F(GatheredVolume, IsEveryLayerForwardAndAllButTheLastThreeBackwardInStageThree) {
  const auto params = make({3, DType::f32});
  const ParamLayout& layout = params->store().layout();
  std::uint64_t expected = 0;
  for (int unit = 0; unit < gathered_units; ++unit) {
    const int times = unit < gathered_units - ParamStore::param_buffers ? 2 : 1;
    expected += static_cast<std::uint64_t>(times * layout.unit_weights(unit).count);
  }

  EXPECT_EQ(gathered(*params), expected * sizeof(float));
}

TEST_F(GatheredVolume, IsThatOfTheComputeDtypeForMatrices) {
  for (const int stage : {1, 2, 3}) {
    const auto params = make({stage, DType::bf16});
    std::uint64_t matrices = 0, expected = 0;
    for (const Bucket& bucket : params->store().layout().buckets()) {
      if (bucket.kind != ParamKind::weight) continue;
      const bool again =
          stage == 3 && bucket.units.first < gathered_units - ParamStore::param_buffers;
      const auto elements = static_cast<std::uint64_t>((again ? 2 : 1) * bucket.count);
      expected += elements * (bucket.matrices ? sizeof(bf16) : sizeof(float));
      matrices += bucket.matrices ? elements : 0;
    }

    EXPECT_EQ(gathered(*params), expected) << "stage " << stage;
    EXPECT_GT(matrices, 0U);
  }
}

}  // namespace
}  // namespace trireme
