// SPDX-License-Identifier: Apache-2.0
// Checkpoints in host memory: what remains when a host is lost. Four ranks simulate four hosts, or
// two hosts with two ranks each.
#include "runtime/checkpoint/memory/memory_store.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "tests/checkpoint/parts.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::Part;
using testing::ElementsAre;
using testing::IsEmpty;

class MemoryTest : public test::SharedDirectoryTest {
 protected:
  std::string checkpoints() const { return directory_ + "/run/checkpoints"; }
  std::string memory() const { return directory_ + "/memory"; }
  MemoryPlace place(int ranks_per_host = 1) {
    return {memory(), "host" + std::to_string(rank() / ranks_per_host)};
  }
  // Saves one step after another, each to disk or memory; returns the reports.
  std::vector<SaveReport> save(const std::vector<std::pair<std::int64_t, SaveTo>>& steps,
                               int ranks_per_host = 1) {
    Part part(device(), world(), {"", {1, 2, 2}, 1, 4});
    CheckpointSaver saver(device(), part.mesh, part.placed, part.values,
                          {.directory = checkpoints(), .memory = place(ranks_per_host)});
    std::vector<SaveReport> reports;
    for (const auto& [step, to] : steps) {
      part.fill(static_cast<std::uint64_t>(step));
      saver.save(*part.stream, step, R"({"note":"kept"})", to);
      saver.finish();
      reports.push_back(saver.take_report().value());
    }
    world().barrier();
    return reports;
  }
  void lose(const std::string& host) {
    if (rank() == 0) {
      for (const auto& run : fs::directory_iterator(memory()))
        fs::remove_all(run.path() / host);
    }
    world().barrier();
  }
  // The files of a step on all hosts.
  std::vector<fs::path> held(const std::string& name) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(memory()))
      if (entry.path().filename() == name) found.push_back(entry.path());
    return found;
  }
  // The step from which the first `ranks` ranks resume, or -1. Equal on all ranks.
  std::int64_t step_after_recovery(int ranks, const MemoryPlace& here) {
    std::int64_t step = -1;
    on_ranks(ranks, [&](Communicator& group) {
      recover_from_memory(here, checkpoints(), group);
      const auto found = find_newest_valid(checkpoints(), group);
      if (!found) return;
      step = found->step;
      Part part(device(), group, {"", {ranks, 1, 1}, 0, 1});
      restore_checkpoint(*found, device(), *part.stream, part.placed, part.values);
      EXPECT_EQ(part.wrong(static_cast<std::uint64_t>(step)), 0);
      EXPECT_EQ(found->manifest.state, R"({"note":"kept"})");
    });
    return std::stoll(share_text(world(), HostStream(), std::to_string(step)));
  }
  std::int64_t step_after_recovery() { return step_after_recovery(4, place()); }
};

TEST_F(MemoryTest, EveryRankHasABuddyOnTheNextHostIfThereIsOne) {
  using Hosts = std::vector<std::string>;
  EXPECT_THAT(buddies_of(Hosts{"a", "b", "c"}), ElementsAre(1, 2, 0));
  EXPECT_THAT(buddies_of(Hosts{"a", "a", "b", "b"}), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(buddies_of(Hosts{"a", "b", "a", "b", "a"}), ElementsAre(1, 0, 3, 2, 1));
  EXPECT_THAT(buddies_of(Hosts{"a", "a"}), ElementsAre(-1, -1));
}

TEST_F(MemoryTest, AfterTheLossOfAHostAnotherLayoutResumesWithTheSameBits) {
  for (const char* const lost : {"host0", "host1", "host2", "host3"}) {
    SCOPED_TRACE(lost);
    for (const SaveReport& report : save({{5, SaveTo::disk}, {8, SaveTo::memory}})) {
      EXPECT_EQ(report.problem, "");
      EXPECT_EQ(report.in_memory, report.step == 8);
    }
    EXPECT_EQ(held("manifest.json").size(), 4U);
    EXPECT_EQ(held("rank_00002.h5").size(), 2U);  // its own and its buddy's
    world().barrier();
    lose(lost);
    // The lost host is not among the remaining ones, which have their files.
    EXPECT_EQ(step_after_recovery(), 8);
    world().barrier();
    if (rank() == 0) fs::remove_all(directory_ + "/run");
    world().barrier();
  }
}

TEST_F(MemoryTest, TwoHostsOfTwoRanksKeepEachOthersSlices) {
  save({{3, SaveTo::memory}}, 2);
  lose("host0");
  EXPECT_EQ(step_after_recovery(2, {memory(), "host1"}), 3);
}

TEST_F(MemoryTest, ResumesFromDiskIfThatIsAsNewOrCopiesAreIncomplete) {
  save({{4, SaveTo::memory}, {6, SaveTo::disk}});
  EXPECT_EQ(step_after_recovery(), 6);
  save({{7, SaveTo::memory}});
  lose("host1");
  lose("host2");  // two neighbours at once
  EXPECT_EQ(step_after_recovery(), 6);
}

TEST_F(MemoryTest, ADamagedCopyIsReplacedByTheOtherOrSkipped) {
  save({{4, SaveTo::disk}, {6, SaveTo::memory}});
  if (rank() == 0) {
    const auto copies = held("rank_00002.h5");
    ASSERT_EQ(copies.size(), 2U);
    fs::resize_file(copies[0], 100);
  }
  world().barrier();
  EXPECT_EQ(step_after_recovery(), 6);
  save({{8, SaveTo::memory}});
  if (rank() == 0) {
    for (const auto& copy : held("rank_00002.h5")) {
      std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(fs::file_size(copy) / 2));
      file.write("damage", 6);
    }
  }
  world().barrier();
  EXPECT_EQ(step_after_recovery(), 6);
}

TEST_F(MemoryTest, OnlyTheNewestStepIsKeptUntilForget) {
  save({{2, SaveTo::memory}, {4, SaveTo::memory}});
  EXPECT_THAT(held(step_directory_name(2)), IsEmpty());
  EXPECT_EQ(held(step_directory_name(4)).size(), 4U);
  world().barrier();
  const auto id = memory_id(checkpoints());
  ASSERT_TRUE(id.has_value());
  MemoryStore(place(), *id).forget(rank());
  world().barrier();
  EXPECT_TRUE(fs::is_empty(memory()));
}

TEST_F(MemoryTest, AnUnwritableMemoryDirectoryIsNamedBeforeTheFirstStep) {
  if (rank() == 0) std::ofstream(memory()) << "no directory";
  world().barrier();
  test::expect_error(
      ExitCode::config,
      [&] {
        save({{1, SaveTo::memory}});
      },
      "checkpoint.memory_directory: " + memory());
}

}  // namespace
}  // namespace trireme
