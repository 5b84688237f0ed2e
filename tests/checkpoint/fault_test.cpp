// SPDX-License-Identifier: Apache-2.0
// Every system call of a save fails in turn, or ends the process: earlier checkpoints still load, a
// partial one is never loaded, and every rank gets the error.
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/save/direct_file.h"
#include "tests/checkpoint/faulty_calls.h"
#include "tests/checkpoint/parts.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::Fault;

constexpr int no_end = 1000;  // more calls than a save makes

class FaultTest : public test::MpiTest {
 protected:
  FaultTest() {
    if (rank() == 0) own_ = std::make_unique<test::TemporaryDirectory>();
    directory_ = share_text(world(), HostStream(), own_ ? own_->path() : "");
    part_.emplace(device(), world(), test::PartLayout{"", {1, size(), 1}, 1, 1});
  }
  void TearDown() override {
    test::disarm_faults();
    world().barrier();
  }

  [[nodiscard]] std::unique_ptr<CheckpointSaver> make_saver() {
    return std::make_unique<CheckpointSaver>(device(), part_->mesh, part_->placed, part_->values,
                                             SaverOptions{.directory = directory_, .keep = 1});
  }

  SaveReport save(CheckpointSaver& saver, std::int64_t step) {
    part_->fill(static_cast<std::uint64_t>(step));
    saver.save(*part_->stream, step, "{}");
    saver.finish();
    return *saver.take_report();
  }

  // The newest checkpoint is one of the two, with its saved values.
  std::int64_t expect_good(std::int64_t before, std::int64_t now) {
    const auto found = find_newest_valid(directory_, world());
    if (!found) {
      ADD_FAILURE() << "no checkpoint is left";
      return -1;
    }
    EXPECT_TRUE(found->step == before || found->step == now) << found->step;
    restore_checkpoint(*found, device(), *part_->stream, part_->placed, part_->values);
    EXPECT_EQ(part_->wrong(static_cast<std::uint64_t>(found->step)), 0);
    return found->step;
  }

  // One rank's text on every rank.
  std::string text_of(int from, const std::string& mine) {
    const auto texts = gather_texts(world(), HostStream(), mine);
    return share_text(world(), HostStream(),
                      texts.empty() ? "" : texts[static_cast<std::size_t>(from)]);
  }

  // Steps whose directories are left after rank 0 removed old ones.
  std::vector<std::int64_t> kept() {
    world().barrier();
    std::vector<std::int64_t> steps;
    for (const StepDirectory& found : list_checkpoints(directory_))
      steps.push_back(found.step);
    world().barrier();
    return steps;
  }

  std::string directory_;
  std::optional<test::Part> part_;

 private:
  std::unique_ptr<test::TemporaryDirectory> own_;
};

TEST_F(FaultTest, NothingNonFiniteIsSavedAndTheCheckpointBeforeStays) {
  const auto saver = make_saver();
  ASSERT_EQ(save(*saver, 1).problem, "");
  const ParamLayout& layout = part_->params.layout();
  const ParamId id = layout.find("c.weight");
  const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(layout.bucket_of(id))];
  for (const ValueKind kind : part_->values.kinds()) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      part_->fill(2);
      const Held held = held_of(part_->values, kind, bucket);
      const std::int64_t at = layout.offset(id) - held.first;
      const bool has_it = at >= 0 && at < held.values.count();
      if (has_it) held.values.as<float>()[at] = value;

      saver->save(*part_->stream, 2, "{}");
      saver->finish();

      const SaveReport report = *saver->take_report();
      EXPECT_TRUE(report.non_finite()) << name_of(kind);
      EXPECT_NE(report.problem.find("c.weight"), std::string::npos) << report.problem;
      EXPECT_EQ(kept(), (std::vector<std::int64_t>{1}));
      EXPECT_EQ(expect_good(1, 1), 1);
    }
  }
  const SaveReport good = save(*saver, 3);
  EXPECT_EQ(good.problem, "");
  EXPECT_FALSE(good.non_finite());
}

TEST_F(FaultTest, EveryFailingCallOfASaveIsReportedAndHarmless) {
  const auto saver = make_saver();
  std::int64_t step = 1, good = 1;
  ASSERT_EQ(save(*saver, step).problem, "");
  for (const Fault fault : {Fault::no_space, Fault::io_error, Fault::short_write}) {
    for (int culprit = 0; culprit < size(); ++culprit) {
      for (int nth = 0; nth < no_end; ++nth) {
        ++step;
        if (rank() == culprit) test::arm_fault(directory_, fault, nth);

        const SaveReport report = save(*saver, step);

        const std::string call = text_of(culprit, test::failed_call());
        const int counted = std::stoi(text_of(culprit, fmt::format("{}", test::calls_counted())));
        test::disarm_faults();
        SCOPED_TRACE(fmt::format("fault {} in call {} ({}) of rank {}: {}", static_cast<int>(fault),
                                 nth, call, culprit, report.problem));
        EXPECT_EQ(share_text(world(), HostStream(), report.problem), report.problem);
        if (call.empty() || fault == Fault::short_write) {
          EXPECT_EQ(report.problem, "");
        }
        if (!report.problem.empty()) {
          EXPECT_NE(report.problem.find(fmt::format("rank {}:", culprit)), std::string::npos);
          EXPECT_NE(report.problem.find(directory_), std::string::npos);
          const std::string name = fault == Fault::no_space ? "ENOSPC" : "EIO";
          EXPECT_TRUE(report.problem.find(name) != std::string::npos ||
                      report.problem.find("rror") != std::string::npos);
        }
        const std::int64_t found = expect_good(good, step);
        if (report.committed()) {
          EXPECT_EQ(found, step);
        }
        good = found;
        if (counted <= nth) break;  // no call was left to fail
        ASSERT_LT(nth, no_end - 1);
      }
    }
  }
  EXPECT_GT(saver->failures(), 10);
  EXPECT_EQ(save(*saver, step + 1).problem, "");
}

TEST_F(FaultTest, AFailingLargeAlignedWriteIsNamedAndAShortOneIsCompleted) {
  constexpr std::size_t block = DirectFile::alignment, header = 300, size = 3 * block + 100;
  alignas(block) std::array<std::byte, size> data;
  for (std::size_t i = 0; i < size; ++i)
    data[i] = static_cast<std::byte>(i * 7 + i / block);
  const std::string name = fmt::format("large_{}", rank()), path = directory_ + "/" + name;
  const OutputDirectory directory(directory_, ExitCode::checkpoint);
  int failures = 0;
  for (const Fault fault : {Fault::no_space, Fault::io_error, Fault::short_write}) {
    for (int nth = 0;; ++nth) {
      ASSERT_LT(nth, no_end);
      test::arm_fault(directory_, fault, nth);
      std::string problem;
      try {
        DirectFile file(directory, name, ExitCode::checkpoint);
        file.write(0, std::span(data).first(header));
        file.write(block, data);
        file.finish(block + size);
      } catch (const Error& error) {
        problem = error.what();
      }
      const std::string call = test::failed_call();
      const int counted = test::calls_counted();
      test::disarm_faults();
      SCOPED_TRACE(fmt::format("fault {} in call {} ({})", static_cast<int>(fault), nth, call));
      EXPECT_EQ(problem.empty(), call.empty() || fault == Fault::short_write) << problem;
      if (problem.empty()) {
        const std::string text = test::read_text(path);
        ASSERT_EQ(text.size(), block + size);
        EXPECT_EQ(std::memcmp(text.data(), data.data(), header), 0);
        EXPECT_EQ(std::memcmp(text.data() + block, data.data(), size), 0);
      } else {
        ++failures;
        EXPECT_NE(problem.find(path), std::string::npos) << problem;
      }
      if (counted <= nth) break;
    }
  }
  EXPECT_GE(failures, 12);
}

// Needs the right to mount.
TEST_F(FaultTest, AFileLargerThanTheFreeSpaceTakesNone) {
  const std::string disk = fmt::format("{}/disk_{}", directory_, rank());
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "no right to mount a tmpfs here";
  {
    DirectFile file(OutputDirectory(disk, ExitCode::checkpoint), "file", ExitCode::checkpoint);
    const auto before = fs::space(disk).free;

    file.require_room(before);
    test::expect_error(
        ExitCode::checkpoint, [&] { file.require_room(before + 1); }, disk + "/file", "ENOSPC");
    EXPECT_EQ(fs::space(disk).free, before);
  }
  ASSERT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST_F(FaultTest, ACrashAtAnyCallLeavesThePreviousCheckpoint) {
  if (size() > 1) GTEST_SKIP() << "a fork of one process";
  {
    const auto saver = make_saver();
    ASSERT_EQ(save(*saver, 1).problem, "");
  }
  std::int64_t step = 1, good = 1;
  for (const Fault fault : {Fault::crash_before, Fault::crash_after}) {
    for (int nth = 0; nth < no_end; ++nth) {
      ++step;
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        const auto saver = make_saver();
        test::arm_fault(directory_, fault, nth);
        ::_exit(save(*saver, step).committed() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      SCOPED_TRACE(fmt::format("fault {} at call {}: exit {}", static_cast<int>(fault), nth,
                               WEXITSTATUS(status)));
      const bool ended = WEXITSTATUS(status) == 0;
      EXPECT_TRUE(ended || WEXITSTATUS(status) == test::crash_code);

      good = expect_good(good, step);

      for (const StepDirectory& found : list_checkpoints(directory_))
        EXPECT_TRUE(verify_checkpoint(found.path, open_checkpoint(found.path).manifest).empty());
      prepare_checkpoint_directory(directory_);
      for (const auto& entry : fs::directory_iterator(directory_))
        EXPECT_TRUE(step_of(entry.path().filename().string())) << entry.path();
      if (ended) break;
      ASSERT_LT(nth, no_end - 1);
    }
  }
  EXPECT_GT(step, 40);
}

TEST_F(FaultTest, KeepsTheNewestEveryNthAndTheLast) {
  CheckpointSaver saver(device(), part_->mesh, part_->placed, part_->values,
                        {.directory = directory_, .keep = 2, .keep_every = 4, .async = false});
  for (std::int64_t step = 1; step <= 11; ++step)
    ASSERT_EQ(save(saver, step).problem, "");

  EXPECT_EQ(kept(), (std::vector<std::int64_t>{4, 8, 10, 11}));

  // Newer ones of a branch that was left: the last committed stays.
  ASSERT_EQ(save(saver, 6).problem, "");
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{4, 6, 8, 10, 11}));
}

TEST_F(FaultTest, DirectoriesWithoutAGoodCheckpointDoNotCountAsKept) {
  const auto of_step = [&](std::int64_t step) {
    return directory_ + "/" + step_directory_name(step);
  };
  const auto make = [&] {
    return std::make_unique<CheckpointSaver>(
        device(), part_->mesh, part_->placed, part_->values,
        SaverOptions{.directory = directory_, .keep = 2, .async = false});
  };
  auto saver = make();
  for (const std::int64_t step : {1, 2, 3})
    ASSERT_EQ(save(*saver, step).problem, "");
  if (rank() == 0) {
    fs::create_directory(of_step(5));
    fs::create_directory(of_step(7));
    test::write_text(of_step(7) + "/manifest.json", "{}");
  }
  ASSERT_EQ(save(*saver, 4).problem, "");
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{3, 4, 5, 7}));
  ASSERT_EQ(save(*saver, 8).problem, "");
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{4, 5, 7, 8}));

  // Passed over at a restart for its bytes, not its size.
  saver = make();
  saver->note_restored(4);
  ASSERT_EQ(save(*saver, 6).problem, "");
  ASSERT_EQ(save(*saver, 9).problem, "");
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{6, 7, 8, 9}));
  ASSERT_EQ(save(*saver, 10).problem, "");
  EXPECT_EQ(kept(), (std::vector<std::int64_t>{9, 10}));
}

TEST_F(FaultTest, ReplacesADamagedCheckpointOfTheSameStepAndKeepsAGoodOne) {
  const auto first = make_saver();
  ASSERT_EQ(save(*first, 3).problem, "");
  part_->fill(50);
  first->save(*part_->stream, 3, "{}");  // committed already
  first->finish();
  EXPECT_FALSE(first->take_report().has_value());
  EXPECT_EQ(expect_good(3, 3), 3);
  world().barrier();
  if (rank() == 0) test::write_text(directory_ + "/step_00000003/rank_00000.h5", "cut");
  world().barrier();

  const auto second = make_saver();

  EXPECT_EQ(save(*second, 3).problem, "");
  EXPECT_EQ(expect_good(3, 3), 3);
}

TEST_F(FaultTest, ASaveWaitsForThePreviousOne) {
  const auto saver = make_saver();
  for (std::int64_t step = 1; step <= 3; ++step) {
    part_->fill(static_cast<std::uint64_t>(step));
    saver->save(*part_->stream, step, "{}");
  }
  saver->finish();

  EXPECT_FALSE(saver->busy());
  EXPECT_EQ(saver->take_report()->step, 3);
  EXPECT_EQ(expect_good(3, 3), 3);
}

}  // namespace
}  // namespace trireme
