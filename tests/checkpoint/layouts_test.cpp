// SPDX-License-Identifier: Apache-2.0
// A checkpoint written under one layout gives the same bits under any other.
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/restore/run_state.h"
#include "tests/checkpoint/parts.h"

namespace trireme {
namespace {

using test::Part;
using test::PartLayout;

const std::vector<PartLayout>& layouts() {
  static const std::vector<PartLayout> all{
      {"one rank", {}, 0, 1},
      {"one rank, 8 blocks", {}, 0, 8},
      {"data 2", {1, 2, 1}, 0, 1},
      {"tensor 2", {1, 1, 2}, 0, 2},
      {"tensor 2, 8 blocks", {1, 1, 2}, 0, 8},
      {"pipeline 2", {2, 1, 1}, 0, 1},
      {"data 2 x tensor 2", {1, 2, 2}, 0, 4},
      {"ZeRO 1 on data 2", {1, 2, 1, 2}, 1, 1},
      {"ZeRO 2 on data 4", {1, 4, 1, 4}, 2, 1},
      {"ZeRO 3 on data 2", {1, 2, 1, 2}, 3, 1},
      {"ZeRO 3 on data 2 x tensor 2", {1, 2, 2, 2}, 3, 2},
      {"pipeline 2 x data 2, ZeRO 1", {2, 2, 1, 2}, 1, 8},
      {"ZeRO 1 in groups of 2 on data 4", {1, 4, 1, 2}, 1, 1},
      {"ZeRO 3 in groups of 2 on data 4", {1, 4, 1, 2}, 3, 1},
      {"experts on data 2", {1, 2, 1, 1, 2}, 0, 1},
      {"experts on data 4, ZeRO 1 in groups of 2", {1, 4, 1, 2, 4}, 1, 1},
      {"experts on data 2 of 4, ZeRO 3", {1, 4, 1, 4, 2}, 3, 1},
      {"experts on data 2 of 4, ZeRO 2 in groups of 2", {1, 4, 1, 2, 2}, 2, 1},
      {"experts on data 2 x tensor 2, ZeRO 1", {1, 2, 2, 2, 2}, 1, 2},
      {"pipeline 2 x experts on data 2", {2, 2, 1, 1, 2}, 0, 1},
  };
  return all;
}

class LayoutsTest : public test::SharedDirectoryTest {
 protected:
  void save(const PartLayout& layout, const std::string& directory, std::int64_t step,
            bool average) {
    on_ranks(layout.mesh.size(), [&](Communicator& group) {
      Part part(device(), group, layout);
      if (!average) part.drop_average();
      part.fill(static_cast<std::uint64_t>(step));
      CheckpointSaver saver(device(), part.mesh, part.placed, part.values,
                            {.directory = directory, .keep = 100});
      saver.save(*part.stream, step, R"({"note": "kept"})");
      saver.finish();
      const auto report = saver.take_report();
      ASSERT_TRUE(report.has_value());
      ASSERT_EQ(report->problem, "");
      ASSERT_GT(report->bytes, 0U);
    });
  }
};

TEST_F(LayoutsTest, SavesInOneAndRestoresInAnyOther) {
  for (std::size_t from = 0; from < layouts().size(); ++from) {
    if (layouts()[from].mesh.size() > size()) continue;
    const std::string run = fmt::format("{}/{}", directory_, from);
    save(layouts()[from], run, static_cast<std::int64_t>(from) + 1, true);
    for (const PartLayout& to : layouts()) {
      if (to.mesh.size() > size()) continue;
      SCOPED_TRACE(layouts()[from].name + " -> " + to.name);
      on_ranks(to.mesh.size(), [&](Communicator& group) {
        Part part(device(), group, to);
        part.fill(99);
        const auto found = find_newest_valid(run, group);
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->manifest.state, R"({"note":"kept"})");

        restore_checkpoint(*found, device(), *part.stream, part.placed, part.values);

        EXPECT_EQ(part.wrong(from + 1), 0);
      });
    }
  }
}

TEST_F(LayoutsTest, WritesEachElementOnceOverAllRanks) {
  for (const PartLayout& layout : layouts()) {
    if (layout.mesh.size() > size()) continue;
    SCOPED_TRACE(layout.name);
    std::string mine;
    on_ranks(layout.mesh.size(), [&](Communicator& group) {
      Part part(device(), group, layout);
      const auto tensors = manifest_tensors(part.placed, part.params.layout().splits());
      for (const OwnSlice& own : own_slices(part.params.layout(), part.mesh, tensors)) {
        const ManifestTensor& tensor = tensors[static_cast<std::size_t>(own.slice.tensor)];
        for (std::int64_t i = own.slice.first; i < own.slice.first + own.slice.count; ++i)
          mine += fmt::format("{} {}\n", tensor.name, tensor.blocking.logical(own.slice.block, i));
      }
    });
    const auto texts = gather_texts(world(), HostStream(), mine);
    if (rank() != 0) continue;
    std::multiset<std::string> seen;
    for (const std::string& text : texts) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);)
        seen.insert(line);
    }
    std::size_t elements = 0;
    for (const PlacedParam& param : test::placed_sample(1)) {
      for (std::int64_t i = 0; i < param.spec.shape.count(); ++i, ++elements)
        ASSERT_EQ(seen.count(fmt::format("{} {}", param.spec.name, i)), 1U) << param.spec.name;
    }
    EXPECT_EQ(seen.size(), elements);
  }
}

TEST_F(LayoutsTest, DividesReplicatedTensorsEvenly) {
  if (size() < 4) return;
  Part part(device(), world(), {"data", {1, size(), 1}, 0, 1});
  const auto tensors = manifest_tensors(part.placed, part.params.layout().splits());
  std::int64_t elements = 0;
  for (const OwnSlice& own : own_slices(part.params.layout(), part.mesh, tensors))
    elements += own.slice.count;
  // Cuts fall on multiples of 16 elements in each of a few small buckets.
  EXPECT_LT(elements * size(), 2 * part.params.layout().parameter_count());
}

TEST_F(LayoutsTest, DividesASliceThatSeveralGroupsHoldAmongThem) {
  if (size() < 4) return;
  Part part(device(), world(), {"groups", {1, size(), 1, 2}, 3, 1});
  const auto tensors = manifest_tensors(part.placed, part.params.layout().splits());
  std::int64_t elements = 0;
  for (const OwnSlice& own : own_slices(part.params.layout(), part.mesh, tensors))
    elements += own.slice.count;

  EXPECT_GT(elements, 0);
  EXPECT_LT(elements * size(), 2 * part.params.layout().parameter_count());
}

TEST_F(LayoutsTest, RefusesAnotherModelAndNamesTheDifferences) {
  save(layouts()[0], directory_ + "/run", 1, true);
  const auto found = find_newest_valid(directory_ + "/run", world());
  ASSERT_TRUE(found.has_value());
  auto placed = test::placed_sample(1);
  placed[3].spec.shape = {7, 23};
  placed[4].spec.name = "other";
  const auto single = make_single_communicator();
  Part part(device(), *single, layouts()[0]);
  part.drop_average();

  const std::string text = differences(found->manifest, placed, part.values);

  EXPECT_NE(text.find("a.weight is (7, 24) in it, the model needs (7, 23)"), std::string::npos);
  EXPECT_NE(text.find("other (24) is not in it"), std::string::npos) << text;
  EXPECT_NE(text.find("a.bias (24) is in it and not in the model"), std::string::npos);
  EXPECT_NE(text.find("average is in it, but the config does not use it"), std::string::npos);
  EXPECT_EQ(differences(found->manifest, test::placed_sample(1),
                        Part(device(), *single, layouts()[0]).values),
            "");
}

TEST_F(LayoutsTest, StartsFromWeightsAloneUnderAnyLayout) {
  save(layouts()[0], directory_ + "/run", 7, false);
  for (const PartLayout& to : layouts()) {
    if (to.mesh.size() > size()) continue;
    SCOPED_TRACE(to.name);
    on_ranks(to.mesh.size(), [&](Communicator& group) {
      Part part(device(), group, to);
      part.drop_average();
      part.fill(7);
      const Tensor masters =
          held_of(part.values, ValueKind::model, part.params.layout().buckets()[0]).values;
      device().fill_zero(*part.stream, masters.data, masters.bytes());

      const RunState state = find_state(directory_ + "/run", group);
      restore_weights(state.values(ValueKind::model), state.path, device(), *part.stream,
                      part.placed, part.params);

      EXPECT_EQ(part.wrong(7), 0);
    });
  }
}

TEST_F(LayoutsTest, ReadsOnlyARanksPart) {
  if (size() < 4) return;
  const PartLayout layout{"ZeRO 3", {1, size(), 1, size()}, 3, 1};
  save(layout, directory_ + "/run", 3, true);
  Part part(device(), world(), layout);
  const auto found = find_newest_valid(directory_ + "/run", world());
  ASSERT_TRUE(found.has_value());

  const RestoreReport report =
      restore_checkpoint(*found, device(), *part.stream, part.placed, part.values);

  // Its slices of four values, and all of the few statistics.
  EXPECT_LE(report.bytes,
            4U * sizeof(float) * static_cast<std::uint64_t>(part.params.layout().owned_elements()));
}

}  // namespace
}  // namespace trireme
