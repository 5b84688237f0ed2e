// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/grad_reducer.h"

#include <gmock/gmock.h>

#include <numeric>

#include "runtime/comm/mpi.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

class GradReducerTest : public test::MpiTest {
 protected:
  GradReducerTest() {
    for (const std::int64_t count : {7, 1000, 33, 64, 513, 1}) {
      params_.declare({.name = "p" + std::to_string(count), .shape = {count}});
    }
    params_.declare({.name = "running", .shape = {12}, .kind = ParamKind::statistic});
    params_.allocate(device(), DType::f32, true);
  }
  // Gradients that differ by rank and element and do not add up exactly.
  void fill_gradients(int rank) {
    float* const g = params_.gradients().as<float>();
    for (std::int64_t i = 0; i < params_.element_count(); ++i) {
      g[i] = 0.1F * static_cast<float>(rank + 1) + 0.3F * static_cast<float>(i);
    }
  }
  std::vector<float> reduce(Communicator& group, ReducerMode mode, std::int64_t bucket_bytes) {
    GradReducer reducer(device(), group, params_, compute(), comm_stream(), mode, bucket_bytes);
    fill_gradients(group.rank());
    reducer.begin();
    for (const ParamId id : params_.order())
      reducer.ready(id);
    reducer.finish();
    compute().synchronize();
    return test::values_of<float>(params_.gradients());
  }

  ParamStore params_;
};

TEST_F(GradReducerTest, CutsTheArenaIntoContiguousBucketsThatCoverItOnce) {
  for (const std::int64_t target : {1, 16, 500, 1'000'000}) {
    std::vector<int> bucket_of;
    const std::vector<Bucket> buckets = make_buckets(params_, target, bucket_of);

    std::int64_t next = 0;
    for (const Bucket& bucket : buckets) {
      EXPECT_EQ(bucket.first, next);
      next += bucket.count;
    }
    EXPECT_EQ(next, params_.element_count());
    const int members =
        std::accumulate(buckets.begin(), buckets.end(), 0,
                        [](int sum, const Bucket& bucket) { return sum + bucket.params; });
    EXPECT_EQ(members, static_cast<int>(params_.specs().size()));
  }
}

TEST_F(GradReducerTest, SumsOverAllRanks) {
  const auto sums = reduce(world(), ReducerMode::overlapped, 1024);

  const auto n = static_cast<float>(world().size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float expected = 0.1F * n * (n + 1) / 2 + n * 0.3F * static_cast<float>(i);
    ASSERT_NEAR(sums[i], expected, 1e-5F * (1 + expected)) << "element " << i;
  }
}

TEST_F(GradReducerTest, GivesTheSameBitsOverlappedAndInline) {
  for (const std::int64_t bucket_bytes : {4, 2048, 1 << 20}) {
    const auto overlapped = reduce(world(), ReducerMode::overlapped, bucket_bytes);
    const auto inline_after = reduce(world(), ReducerMode::inline_after_backward, bucket_bytes);

    EXPECT_EQ(overlapped, inline_after) << "buckets of " << bucket_bytes << " bytes";
  }
}

TEST_F(GradReducerTest, NamesAParameterThatReportsTwice) {
  GradReducer reducer(device(), world(), params_, compute(), comm_stream(), ReducerMode::overlapped,
                      1);
  reducer.begin();
  reducer.ready({1});

  EXPECT_THAT([&] { reducer.ready({1}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("p1000")));
  comm_stream().synchronize();
}

TEST_F(GradReducerTest, RefusesToFinishWhileAGradientIsMissing) {
  GradReducer reducer(device(), world(), params_, compute(), comm_stream(), ReducerMode::overlapped,
                      1 << 20);
  reducer.begin();
  for (const ParamId id : params_.order().subspan(1))
    reducer.ready(id);

  EXPECT_THROW(reducer.finish(), Error);
}

}  // namespace
}  // namespace trireme
