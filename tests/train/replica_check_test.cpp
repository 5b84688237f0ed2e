// SPDX-License-Identifier: Apache-2.0
// A bit flip on one of several ranks is detected, and the rank and the tensor are named.
#include "runtime/train/replica_check.h"

#include <gmock/gmock.h>

#include "runtime/base/error.h"
#include "runtime/parallel/param_gatherer.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(OddRanksTest, AreTheMinority) {
  const auto odd = [](std::vector<std::uint64_t> digests) { return odd_ranks(digests); };
  EXPECT_EQ(odd({7, 7, 7}), (std::vector<int>{}));
  EXPECT_EQ(odd({7, 8, 7}), (std::vector<int>{1}));
  EXPECT_EQ(odd({7, 8}), (std::vector<int>{0, 1}));
  EXPECT_EQ(odd({1, 5, 5, 2, 5}), (std::vector<int>{0, 3}));
}

// A few parameters of a rank of this mesh.
class ReplicaCheckTest : public test::MpiTest {
 protected:
  struct Replica {
    Replica(Device& device, Communicator& world, const MeshShape& shape, int zero,
            DType compute = DType::f32)
        : streams(device),
          mesh(world, with_groups(shape, zero)),
          params({{.ranks = shape.tensor, .rank = mesh.here().tensor, .blocks = shape.tensor},
                  {.ranks = mesh.experts().size(),
                   .rank = mesh.experts().rank(),
                   .blocks = mesh.experts().size()}}) {
      params.open_chunk();
      for (const char* const name : {"first", "second", "third"}) {
        params.open_unit();
        params.declare({.name = std::string(name) + ".weight",
                        .shape = {12, 12},
                        .init = Init::normal(1),
                        .matrix = true,
                        .shard_axis = 0});
        params.declare({.name = std::string(name) + ".norm", .shape = {12}});
        params.declare({.name = std::string(name) + ".experts",
                        .shape = {24, 5},
                        .init = Init::normal(1),
                        .matrix = true,
                        .shard_axis = 0,
                        .expert = true});
        params.declare(
            {.name = std::string(name) + ".mean", .shape = {12}, .kind = ParamKind::statistic});
      }
      params.allocate(device, {.compute = compute,
                               .training = true,
                               .zero = {zero, mesh.zero().size(), mesh.zero().rank()},
                               .bucket_elements = 64});
      params.initialize(*streams.compute, 5);
      ParamGatherer(device, mesh.gather(), params, *streams.compute, *streams.comm, nullptr,
                    &mesh.expert_gather())
          .finish();
      check = std::make_unique<ReplicaCheck>(device, params, mesh, streams);
    }
    // With ZeRO one group, unless the shape has others.
    static MeshShape with_groups(MeshShape shape, int zero) {
      if (zero > 0 && shape.shard == 1) shape.shard = shape.data;
      return shape;
    }
    // Element `i` of this rank's part of a parameter.
    void flip_bit(const std::string& name, std::int64_t i) const {
      const ParamLayout& layout = params.layout();
      const ParamId id = layout.find(name);
      const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(layout.bucket_of(id))];
      const Tensor slice = params.masters().owned(bucket);
      auto* const word = reinterpret_cast<std::uint32_t*>(slice.data) + layout.offset(id) -
                         layout.slice_first(bucket) + i;
      *word ^= 1U << 3U;
    }
    // The error of a comparison, "" when all agree.
    std::string verdict(std::int64_t done) const {
      try {
        check->start(done);
        check->finish();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::communication);
        return error.what();
      }
      return {};
    }

    Streams streams;
    ProcessMesh mesh;
    ParamStore params;
    std::unique_ptr<ReplicaCheck> check;
  };
};

TEST_F(ReplicaCheckTest, EqualReplicasPassInEveryZeroStage) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("{} {}", zero, name_of(dtype)));
      const Replica replica(device(), world(), {.data = size()}, zero, dtype);

      EXPECT_EQ(replica.verdict(1), "");
      EXPECT_EQ(replica.verdict(2), "");
    }
  }
}

TEST_F(ReplicaCheckTest, ExpertsAreComparedAmongTheRanksThatHoldTheSameOnes) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int sharing : {2, 4}) {
      if (size() % sharing != 0) continue;
      SCOPED_TRACE(fmt::format("stage {}, experts on {} ranks", zero, sharing));
      const int shard = zero == 0 ? 1 : 2;
      const Replica replica(device(), world(), {.data = size(), .shard = shard, .expert = sharing},
                            zero, DType::bf16);
      EXPECT_EQ(replica.verdict(1), "");
      if (size() == sharing) continue;  // nobody holds the same

      if (rank() == 1) replica.flip_bit("second.experts", 3);

      const std::string verdict = replica.verdict(2);
      EXPECT_THAT(verdict, rank() % sharing == 1 ? HasSubstr("second.experts") : HasSubstr(""));
      EXPECT_EQ(verdict.empty(), rank() % sharing != 1);
    }
  }
}

TEST_F(ReplicaCheckTest, AFlippedBitOfOneRankIsFoundAndNamed) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  const Replica replica(device(), world(), {.data = size()}, 0);
  if (rank() == 1) replica.flip_bit("second.weight", 17);

  const std::string verdict = replica.verdict(40);

  EXPECT_THAT(verdict, AllOf(HasSubstr("after step 40"), HasSubstr("[rank 1/"),
                             HasSubstr("in second.weight of group data")));
  if (size() > 2) {
    EXPECT_THAT(verdict, Not(HasSubstr("[rank 0/")));
  } else {
    EXPECT_THAT(verdict, HasSubstr("differ from each other"));
  }
}

TEST_F(ReplicaCheckTest, AFlippedBitOfACopyIsFoundWhereRanksHaveRoundedMatricesOfEachOther) {
  if (size() < 3) GTEST_SKIP() << "of two ranks nobody is odd";
  for (const int zero : {1, 2}) {
    const Replica replica(device(), world(), {.data = size()}, zero, DType::bf16);
    const Tensor copy = replica.params.compute(replica.params.layout().find("second.weight"));
    if (rank() == 1) copy.as<bf16>()[copy.count() - 1].bits ^= 1U;

    EXPECT_THAT(replica.verdict(7),
                AllOf(HasSubstr("after step 7"), HasSubstr("[rank 1/"), Not(HasSubstr("[rank 0/")),
                      HasSubstr("in second.weight of group data")));
  }
}

TEST_F(ReplicaCheckTest, AFlippedBitOfASliceIsFoundWhereGroupsHoldTheSame) {
  if (size() < 4) GTEST_SKIP() << "needs two groups of two";
  const Replica replica(device(), world(), {.data = size(), .shard = 2}, 3);
  EXPECT_EQ(replica.verdict(1), "");
  if (rank() == 2)
    replica.flip_bit("second.weight", 0);  // first of its group: the slice begins here

  if (rank() % 2 == 0)
    EXPECT_THAT(replica.verdict(7),
                AllOf(HasSubstr("[rank 2/"), HasSubstr("in second.weight of group replicas")));
  else
    EXPECT_EQ(replica.verdict(7), "");
}

TEST_F(ReplicaCheckTest, StatisticsAreComparedWhereNothingElseIsWhole) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  const Replica replica(device(), world(), {.data = size()}, 3);
  if (rank() == 0) replica.flip_bit("first.mean", 11);

  EXPECT_THAT(replica.verdict(3), AllOf(HasSubstr("[rank 0/"), HasSubstr("in first.mean of")));
}

TEST_F(ReplicaCheckTest, ParametersThatTensorRanksDoNotSplitAreCompared) {
  if (size() < 2) GTEST_SKIP() << "there is nobody to compare with";
  for (const int zero : {0, 1, 3}) {
    SCOPED_TRACE(zero);
    const Replica replica(device(), world(), {.tensor = size()}, zero, DType::bf16);
    EXPECT_EQ(replica.verdict(1), "") << "their parts of a split one differ, as they should";
    if (rank() == size() - 1) replica.flip_bit("third.norm", 2);

    EXPECT_THAT(replica.verdict(2), HasSubstr("in third.norm of group tensor replicas"));
  }
}

}  // namespace
}  // namespace trireme
