// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/process_mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "runtime/comm/dry.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

struct Split {
  int color;
  int key;
  CommRole role;
};

// A world of any size, seen by one rank; supports only split().
class FakeWorld final : public Communicator {
 public:
  FakeWorld(int rank, int size) : Communicator(rank, size, "world") {}

  void barrier() override { unexpected(); }
  std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                      CommRole role) override {
    splits[name] = {color, key, role};
    return make_single_communicator();
  }

  std::map<std::string, Split> splits;

 protected:
  void submit(Stream&, const Call&) override { unexpected(); }
  void submit_group_end(Stream&) override { unexpected(); }

 private:
  static void unexpected() { ADD_FAILURE() << "a mesh only splits"; }
};

// The members of each group of `name`, in the group's order.
std::vector<std::vector<int>> groups(const MeshShape& shape, const std::string& name) {
  std::map<int, std::map<int, int>> members;
  for (int rank = 0; rank < shape.size(); ++rank) {
    FakeWorld world(rank, shape.size());
    const ProcessMesh mesh(world, shape);
    const auto found = world.splits.find(name);  // not of one rank
    const Split split =
        found == world.splits.end() ? Split{rank, 0, CommRole::control} : found->second;
    const bool inserted = members[split.color].emplace(split.key, rank).second;
    EXPECT_TRUE(inserted) << "two ranks with color " << split.color << " and key " << split.key;
  }
  std::vector<std::vector<int>> result;
  for (const auto& [color, by_key] : members) {
    result.emplace_back();
    for (const auto& [key, rank] : by_key)
      result.back().push_back(rank);
  }
  return result;
}

using Table = std::vector<std::vector<int>>;

TEST(ProcessMesh, EightRanksAsTwoByTwoByTwo) {
  constexpr MeshShape shape{2, 2, 2};

  EXPECT_EQ(groups(shape, "tensor"), (Table{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(shape, "data"), (Table{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(shape, "pipeline"), (Table{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(ProcessMesh, AGroupsRoleIsWhatItsMessagesAre) {
  FakeWorld world(0, 8);
  const ProcessMesh mesh(world, {2, 2, 2});

  EXPECT_EQ(world.splits.at("data").role, CommRole::data);
  EXPECT_EQ(world.splits.at("tensor").role, CommRole::tensor);
  EXPECT_EQ(world.splits.at("pipeline").role, CommRole::control);
  EXPECT_EQ(world.splits.at("model").role, CommRole::control);
}

TEST(ProcessMesh, TwelveRanksAsThreeStagesOfTwoByTwo) {
  constexpr MeshShape shape{3, 2, 2};

  EXPECT_EQ(groups(shape, "tensor"), (Table{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  EXPECT_EQ(groups(shape, "data"), (Table{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}}));
  EXPECT_EQ(groups(shape, "pipeline"), (Table{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}}));
}

TEST(ProcessMesh, SixteenRanksAsTwoByFourByTwo) {
  constexpr MeshShape shape{2, 4, 2};

  EXPECT_EQ(groups(shape, "tensor"),
            (Table{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups(shape, "data"),
            (Table{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(groups(shape, "pipeline"),
            (Table{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
}

TEST(ProcessMesh, NineRanksOfDataOnly) {
  constexpr MeshShape shape{1, 9, 1};

  EXPECT_EQ(groups(shape, "data"), (Table{{0, 1, 2, 3, 4, 5, 6, 7, 8}}));
  EXPECT_EQ(groups(shape, "tensor").size(), 9U);
  EXPECT_EQ(groups(shape, "pipeline").size(), 9U);
}

TEST(ProcessMesh, DataRanksInZeroGroupsAndTheirReplicas) {
  constexpr MeshShape shape{.pipeline = 1, .data = 4, .tensor = 2, .shard = 2};
  const Table zero{{0, 2}, {1, 3}, {4, 6}, {5, 7}}, replicas{{0, 4}, {1, 5}, {2, 6}, {3, 7}};

  EXPECT_EQ(groups(shape, "zero"), zero);
  EXPECT_EQ(groups(shape, "zero.gather"), zero);
  EXPECT_EQ(groups(shape, "replicas"), replicas);
  for (int rank = 0; rank < shape.size(); ++rank) {
    for (const auto& [name, table] :
         {std::pair("zero", zero), {"zero.gather", zero}, {"replicas", replicas}}) {
      const auto group = std::ranges::find_if(table, [&](const std::vector<int>& members) {
        return std::ranges::find(members, rank) != members.end();
      });
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(world_rank_in(shape, coordinates_of(shape, rank), name, i),
                  (*group)[static_cast<std::size_t>(i)]);
    }
  }
}

TEST(ProcessMesh, MakesNoGroupThatItHasAlready) {
  const auto made = [](int shard) {
    FakeWorld world(0, 4);
    const ProcessMesh mesh(world, {.data = 4, .shard = shard});
    EXPECT_EQ(&mesh.zero() == &mesh.data(), shard == 4);
    EXPECT_EQ(&mesh.replicas() == &mesh.data(), shard == 1);
    std::set<std::string> names;
    for (const auto& [name, split] : world.splits)
      if (name.starts_with("zero") || name == "replicas") names.insert(name);
    return names;
  };
  EXPECT_EQ(made(1), (std::set<std::string>{}));
  EXPECT_EQ(made(4), (std::set<std::string>{"zero.gather"}));
  EXPECT_EQ(made(2), (std::set<std::string>{"zero", "zero.gather", "replicas"}));
}

// The world ranks of a group as world_rank_in says, for every rank.
void expect_known(const MeshShape& shape, const std::string& name, const Table& table) {
  for (const std::vector<int>& members : table)
    for (const int rank : members)
      for (std::size_t i = 0; i < members.size(); ++i)
        EXPECT_EQ(world_rank_in(shape, coordinates_of(shape, rank), name, static_cast<int>(i)),
                  members[i])
            << name << ", rank " << rank;
}

TEST(ProcessMesh, DataRanksThatShareExpertsAndThoseWithTheSameOnes) {
  constexpr MeshShape shape{.pipeline = 1, .data = 8, .tensor = 1, .shard = 4, .expert = 2};
  const Table experts{{0, 1}, {2, 3}, {4, 5}, {6, 7}}, zero{{0, 2}, {1, 3}, {4, 6}, {5, 7}},
      replicas{{0, 4}, {1, 5}, {2, 6}, {3, 7}};

  EXPECT_EQ(groups(shape, "experts"), experts);
  EXPECT_EQ(groups(shape, "expert_zero"), zero);
  EXPECT_EQ(groups(shape, "expert_zero.gather"), zero);
  EXPECT_EQ(groups(shape, "expert_replicas"), replicas);
  expect_known(shape, "experts", experts);
  expect_known(shape, "expert_zero", zero);
  expect_known(shape, "expert_zero.gather", zero);
  expect_known(shape, "expert_replicas", replicas);
}

TEST(ProcessMesh, ExpertsAreSharedByAllTensorRanksOfDataRanks) {
  constexpr MeshShape shape{.pipeline = 2, .data = 4, .tensor = 2, .shard = 1, .expert = 2};

  EXPECT_EQ(groups(shape, "experts"),
            (Table{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
  EXPECT_EQ(groups(shape, "expert_replicas"),
            (Table{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(groups(shape, "expert_zero").size(), 16U) << "of one rank";
}

// Slices are fewer than the data ranks that share experts: each holds all of its experts.
TEST(ProcessMesh, ExpertsSharedByWholeZeroGroupsHaveNoSlices) {
  constexpr MeshShape shape{.data = 8, .shard = 2, .expert = 4};
  FakeWorld world(5, 8);
  const ProcessMesh mesh(world, shape);

  EXPECT_EQ(mesh.expert_zero().size(), 1);
  EXPECT_EQ(mesh.expert_gather().size(), 1);
  EXPECT_EQ(groups(shape, "expert_replicas"), (Table{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(ProcessMesh, ExpertsOfOneDataRankUseTheOtherGroups) {
  FakeWorld world(0, 8);
  const ProcessMesh mesh(world, {.data = 4, .tensor = 2, .shard = 2});

  EXPECT_EQ(&mesh.experts(), &mesh.tensor());
  EXPECT_EQ(&mesh.expert_zero(), &mesh.zero());
  EXPECT_EQ(&mesh.expert_replicas(), &mesh.replicas());
  EXPECT_EQ(&mesh.expert_gather(), &mesh.gather());
  for (const auto& [name, split] : world.splits)
    EXPECT_FALSE(name.starts_with("expert")) << name;
}

TEST(ProcessMesh, RanksThatShareSequencesAreNeighboursAmongDataRanks) {
  constexpr MeshShape shape{.pipeline = 2, .data = 6, .tensor = 2, .context = 3};
  const Table context{{0, 2, 4},    {1, 3, 5},    {6, 8, 10},   {7, 9, 11},
                      {12, 14, 16}, {13, 15, 17}, {18, 20, 22}, {19, 21, 23}};

  EXPECT_EQ(groups(shape, "context"), context);
  expect_known(shape, "context", context);
  EXPECT_EQ(shape.sample_ranks(), 2);
  EXPECT_EQ(sample_of(shape, coordinates_of(shape, 5)), 0);
  EXPECT_EQ(sample_of(shape, coordinates_of(shape, 6)), 1);
  EXPECT_EQ(groups({.data = 4}, "context").size(), 4U) << "of one rank";
  FakeWorld world(7, 24);
  const ProcessMesh mesh(world, shape);
  EXPECT_EQ(world.splits.at("context").role, CommRole::tensor);
}

TEST(ProcessMesh, RankAndCoordinatesAreInverse) {
  for (const MeshShape shape : {MeshShape{2, 2, 2}, {3, 5, 1}, {1, 4, 4}, {4, 2, 2}, {16, 1, 1}}) {
    std::set<std::tuple<int, int, int>> seen;
    for (int rank = 0; rank < shape.size(); ++rank) {
      const MeshCoordinates at = coordinates_of(shape, rank);
      EXPECT_EQ(rank_of(shape, at), rank);
      EXPECT_TRUE(at.pipeline < shape.pipeline && at.data < shape.data && at.tensor < shape.tensor);
      seen.emplace(at.pipeline, at.data, at.tensor);
    }
    EXPECT_EQ(static_cast<int>(seen.size()), shape.size());
  }
}

TEST(ProcessMesh, ANumberOfRanksThatDoesNotFitIsAConfigError) {
  FakeWorld world(0, 6);

  test::expect_error(
      ExitCode::config,
      [&] {
        const ProcessMesh mesh(world, {2, 2, 1});
      },
      "pipeline 2 x data 2 x tensor 1", "needs 4 ranks, but 6 were started");
  test::expect_error(
      ExitCode::internal,
      [&] {
        const ProcessMesh mesh(world, {-1, -6, 1});
      },
      "pipeline -1");
}

TEST(ProcessMesh, DryGroupsHaveTheRanksOfTheRealOnes) {
  constexpr MeshShape shape{.pipeline = 2, .data = 3, .tensor = 4, .context = 3};
  for (int rank = 0; rank < shape.size(); ++rank) {
    const auto world = make_dry_communicator(rank, shape.size(), "world");
    const ProcessMesh mesh = ProcessMesh::dry(*world, shape);

    EXPECT_EQ(mesh.here(), coordinates_of(shape, rank));
    EXPECT_EQ(std::pair(mesh.data().rank(), mesh.data().size()), std::pair(mesh.here().data, 3));
    EXPECT_EQ(std::pair(mesh.tensor().rank(), mesh.tensor().size()),
              std::pair(mesh.here().tensor, 4));
    EXPECT_EQ(std::pair(mesh.pipeline().rank(), mesh.pipeline().size()),
              std::pair(mesh.here().pipeline, 2));
    EXPECT_EQ(std::pair(mesh.model().rank(), mesh.model().size()),
              std::pair(mesh.here().pipeline * 4 + mesh.here().tensor, 8));
    EXPECT_EQ(std::pair(mesh.context().rank(), mesh.context().size()),
              std::pair(mesh.here().data, 3));
  }
}

}  // namespace
}  // namespace trireme
