// SPDX-License-Identifier: Apache-2.0
// Links planted in a run or export directory: a job must not change anything outside.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// The kind of entry at a name.
enum class Link { symbolic, dangling, hard };

class PlantedLinksTest : public RunTest {
 protected:
  void SetUp() override {
    fs::create_directories(outside("folder"));
    write_file(outside("folder/kept"), "mine");
    fs::create_directories(in_run(""));
  }
  // By name: contents and times of change.
  using Places = std::map<std::string, std::string>;
  void remember() { before_ = places(); }
  void expect_outside_unchanged() {
    ++cases_;
    const bool same = places() == before_;
    EXPECT_THAT(places(), testing::ContainerEq(before_));
    survived_ += same ? 1 : 0;
  }
  void TearDown() override {
    std::printf("chaos: %d cases, %d survived\n", cases_, HasFailure() ? 0 : survived_);
  }

  // A link at `path` to a file outside, which contains `text`.
  void plant(const std::string& path, Link link, const std::string& text = "mine") const {
    const std::string target = outside(fs::path(path).filename().string());
    fs::remove(path);
    fs::remove(target);
    if (link != Link::dangling) write_file(target, text);
    if (link == Link::hard) {
      fs::create_hard_link(target, path);
    } else {
      fs::create_symlink(target, path);
    }
  }
  // A file of the run becomes a link to itself outside.
  void move_out(const std::string& name, Link link) const {
    plant(in_run(name), link, read_file(in_run(name)));
  }
  void expect_own_file(const std::string& path) const {
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path))) << path;
    EXPECT_EQ(fs::hard_link_count(path), 1U) << path;
  }

  [[nodiscard]] std::string outside(const std::string& name) const {
    return directory() + "/outside/" + name;
  }
  [[nodiscard]] std::string in_run(const std::string& name) const {
    return directory() + "/run/" + name;
  }
  // One process without ranks.
  [[nodiscard]] CommandResult train(const std::vector<std::string>& more = {}, int ranks = 0) {
    std::vector<std::string> settings{"checkpoint.every_steps=2", "checkpoint.keep=1"};
    settings.insert(settings.end(), more.begin(), more.end());
    return train_gpt("run", ranks, settings);
  }
  // Leaves a checkpoint of its first step or two.
  void begin_a_run() {
    const CommandResult result = train({"run.deadline_minutes=0.00001"});
    ASSERT_EQ(result.exit_code, 75) << result.output;
  }

 private:
  [[nodiscard]] Places places() const {
    Places found;
    for (const auto& entry : fs::recursive_directory_iterator(directory() + "/outside")) {
      const auto changed = entry.last_write_time().time_since_epoch().count();
      found[entry.path().string()] =
          fmt::format("{} {}", changed, entry.is_directory() ? "" : read_file(entry.path()));
    }
    return found;
  }
  Places before_;
  int cases_ = 0, survived_ = 0;
};

// Names that a run replaces, and temporary names of these files.
const std::vector<std::string> written_anew = {
    "environment.json", "data.json",
    "config.user.yaml", "owner.json",
    "start_times.json", "config.yaml.tmp",
    ".writable",        "weights.safetensors.0123456789abcdef.tmp"};

TEST_F(PlantedLinksTest, ANewRunReplacesThemAndWritesThroughNone) {
  for (const Link link : {Link::symbolic, Link::dangling, Link::hard}) {
    SCOPED_TRACE(static_cast<int>(link));
    fs::remove_all(in_run(""));
    fs::create_directories(in_run("checkpoints"));
    for (const std::string& name : written_anew)
      plant(in_run(name), link);
    for (const char* const name :
         {"step_00000004.tmp", "step_00000004.e1.tmp", "step_00000006.deleting"})
      fs::create_directory_symlink(outside("folder"), in_run("checkpoints/") + name);
    remember();

    const CommandResult result = train({}, 2);

    EXPECT_EQ(result.exit_code, 0) << result.output;
    expect_outside_unchanged();
    for (const char* const name : {"environment.json", "data.json", "config.yaml", "owner.json",
                                   "metrics.jsonl", "weights.safetensors"})
      expect_own_file(in_run(name));
  }
}

TEST_F(PlantedLinksTest, AppendedFilesAreRefusedAsLinks) {
  for (const Link link : {Link::symbolic, Link::dangling, Link::hard}) {
    for (const char* const name : {"metrics.jsonl", "console.log", "owner.lock"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, static_cast<int>(link)));
      plant(in_run(name), link);
      remember();

      const CommandResult result = train();

      EXPECT_EQ(result.exit_code, 2) << result.output;
      EXPECT_THAT(result.output,
                  AllOf(HasSubstr(in_run(name)),
                        HasSubstr(link == Link::hard ? "is a hard link" : "is a symbolic link")));
      expect_outside_unchanged();
      fs::remove(in_run(name));
    }
  }
  fs::create_directory_symlink(outside("folder"), in_run("checkpoints"));
  remember();
  EXPECT_EQ(train().exit_code, 2);
  expect_outside_unchanged();
}

TEST_F(PlantedLinksTest, ARunThatGoesOnRefusesAMovedLogAndLeavesItWhole) {
  begin_a_run();
  for (const Link link : {Link::symbolic, Link::hard}) {
    for (const char* const name : {"metrics.jsonl", "console.log"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, static_cast<int>(link)));
      const std::string text = read_file(in_run(name));
      move_out(name, link);
      remember();

      const CommandResult result = train();

      EXPECT_EQ(result.exit_code, 2) << result.output;
      EXPECT_THAT(result.output, HasSubstr(in_run(name)));
      expect_outside_unchanged();
      fs::remove(in_run(name));
      write_file(in_run(name), text);
    }
  }
  EXPECT_EQ(train().exit_code, 0);
}

TEST_F(PlantedLinksTest, ARunThatGoesOnReplacesOthersAndDeletesNothingOutside) {
  for (const Link link : {Link::symbolic, Link::hard}) {
    SCOPED_TRACE(static_cast<int>(link));
    fs::remove_all(in_run(""));
    begin_a_run();
    for (const char* const name : {"environment.json", "config.yaml", "owner.json", "data.json"})
      move_out(name, link);
    // The checkpoint that it reads, and later removes.
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(in_run("checkpoints")))
      if (entry.is_regular_file()) files.push_back(entry.path());
    ASSERT_FALSE(files.empty());
    for (const std::string& file : files)
      plant(file, link, read_file(file));
    for (const char* const name : {"step_00000004.e2.tmp", "step_00000006"})
      fs::create_directory_symlink(outside("folder"), in_run("checkpoints/") + name);
    remember();

    const CommandResult result = train();

    EXPECT_EQ(result.exit_code, 0) << result.output;
    expect_outside_unchanged();
    for (const char* const name : {"environment.json", "owner.json", "weights.safetensors"})
      expect_own_file(in_run(name));
    EXPECT_FALSE(fs::exists(files.front()));
  }
}

TEST_F(PlantedLinksTest, AnExportReplacesThemAndWritesThroughNone) {
  const CommandResult trained = train();
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string to = directory() + "/exported";
  for (const Link link : {Link::symbolic, Link::dangling, Link::hard}) {
    SCOPED_TRACE(static_cast<int>(link));
    fs::remove_all(to);
    fs::create_directories(to);
    for (const char* const name : {"model.safetensors", "config.json", "model.safetensors.tmp",
                                   "config.json.0123456789abcdef.tmp"})
      plant(to + "/" + name, link);
    remember();

    const CommandResult refused =
        trireme(fmt::format("checkpoint export {} --out {}", in_run(""), to));
    EXPECT_EQ(refused.exit_code, link == Link::dangling ? 0 : 2) << refused.output;
    expect_outside_unchanged();
    const CommandResult forced =
        trireme(fmt::format("checkpoint export {} --out {} --force", in_run(""), to));

    EXPECT_EQ(forced.exit_code, 0) << forced.output;
    expect_outside_unchanged();
    for (const char* const name : {"model.safetensors", "config.json"})
      expect_own_file(to + "/" + name);
  }
}

}  // namespace
}  // namespace trireme::test
