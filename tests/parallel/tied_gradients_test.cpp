// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/tied_gradients.h"

#include "runtime/comm/process_mesh.h"
#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"

namespace trireme {
namespace {

constexpr int tied_units = 6;  // the original is in the first, the copy in the last

float tied_gradient(const ParamSpec& spec, std::int64_t i) {
  return test::sample_value(spec.name, i, 3);
}

class TiedGradientsTest : public test::MpiTest {
 protected:
  void allocate(ParamStore& store, int first, int last, const ZeroOptions& zero) const {
    test::declare_sample(store, first, last);
    store.allocate(device(), {.training = true, .zero = zero, .bucket_elements = 150});
    for (const Bucket& bucket : store.layout().buckets())
      test::fill_owned(store.layout(), bucket, store.gradients().owned(bucket), tied_gradient);
  }
  // Both copies are original + copy, everything else is unchanged.
  static void expect_sums(const ParamStore& store, int tied_parameters) {
    std::int64_t tied = 0;
    for (const Bucket& bucket : store.layout().buckets()) {
      const float* const own = store.gradients().owned(bucket).as<float>();
      test::for_each_owned(
          store.layout(), bucket, [&](std::int64_t place, const ParamSpec& spec, std::int64_t i) {
            const float sum = test::sample_value("table", i, 3) + test::sample_value("head", i, 3);
            ASSERT_EQ(own[place], spec.tie.empty() ? tied_gradient(spec, i) : sum)
                << spec.name << " " << i;
            tied += spec.tie.empty() ? 0 : 1;
          });
    }
    // A slice may be only padding.
    const bool whole = store.options().zero.ranks == 1 || store.options().zero.stage == 0;
    const std::int64_t expected = tied_parameters * test::sample_units()[0][0].shape.count();
    EXPECT_TRUE(whole ? tied == expected : tied <= expected);
  }
};

TEST_F(TiedGradientsTest, AddsUpBothCopiesOfOneStore) {
  const auto alone = make_single_communicator();
  for (const int stage : {0, 1, 2, 3}) {
    ParamStore store({}, /*separate_ties=*/true);
    allocate(store, 0, tied_units, {.stage = stage, .ranks = size(), .rank = rank()});

    TiedGradients(device(), *alone, store).add(compute());

    expect_sums(store, 2);
  }
}

TEST_F(TiedGradientsTest, LeavesASharedParameterUnchanged) {
  const auto alone = make_single_communicator();
  ParamStore store({}, /*separate_ties=*/false);
  allocate(store, 0, tied_units, {});

  TiedGradients(device(), *alone, store).add(compute());

  const Tensor table = store.gradient(store.layout().find("table"));
  for (std::int64_t i = 0; i < table.count(); ++i)
    ASSERT_EQ(table.as<float>()[i], test::sample_value("table", i, 3));
}

// Stages in between have no copy.
TEST_F(TiedGradientsTest, AddsUpTheCopiesOfTheFirstAndTheLastStage) {
  if (size() == 1) GTEST_SKIP() << "needs two stages";
  for (const int stages : {2, size()}) {
    if (size() % stages != 0) continue;
    const ProcessMesh mesh(world(), {.pipeline = stages, .data = size() / stages});
    for (const int zero : {0, 1, 2, 3}) {
      const int here = mesh.here().pipeline;
      ParamStore store({}, /*separate_ties=*/true);
      allocate(store, here * tied_units / stages, (here + 1) * tied_units / stages,
               {.stage = zero, .ranks = mesh.shape().data, .rank = mesh.here().data});
      TiedGradients ties(device(), mesh.pipeline(), store);
      const CommStats before = mesh.pipeline().stats();

      ties.add(comm_stream());
      comm_stream().synchronize();

      const bool has_copy = here == 0 || here + 1 == stages;
      expect_sums(store, has_copy ? 1 : 0);
      EXPECT_EQ(mesh.pipeline().stats()[Verb::send].calls - before[Verb::send].calls,
                has_copy ? 1U : 0U);
    }
  }
}

}  // namespace
}  // namespace trireme
