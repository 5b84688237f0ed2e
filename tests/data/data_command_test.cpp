// SPDX-License-Identifier: Apache-2.0
// The commands as processes: exit codes, messages, and files left after a kill or on a full disk.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "tests/data/make_images.h"
#include "tests/data/make_megatron.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::pattern;
using test::png_of;
using test::write_text;

const std::string tool = TRIREME_DATA_TOOL;

struct Outcome {
  int code = -1;
  std::string text;  // stdout and stderr
};

Outcome run_command(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  char block[4096];
  while (const std::size_t got = std::fread(block, 1, sizeof(block), pipe))
    outcome.text.append(block, got);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

Outcome run(const std::string& arguments) {
  return run_command(tool + " " + arguments);
}

void expect_outcome(const Outcome& outcome, ExitCode code, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.text;
  for (const std::string& part : parts) {
    EXPECT_NE(outcome.text.find(part), std::string::npos)
        << "'" << part << "' is missing in: " << outcome.text;
  }
}

class DataCommand : public testing::Test {
 protected:
  // A reader must find only complete data sets.
  void expect_nothing_complete(const std::string& directory) const {
    EXPECT_FALSE(fs::exists(directory));
    for (const auto& entry : fs::recursive_directory_iterator(directory_.path())) {
      if (entry.path().extension() != ".h5") continue;
      const Outcome outcome = run("data inspect --verify " + entry.path().parent_path().string());
      EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::data)) << entry.path() << outcome.text;
    }
  }

  test::TemporaryDirectory directory_;
  std::string out_ = directory_.file("out");
};

TEST_F(DataCommand, PacksInspectsAndVerifiesFromStandardInput) {
  const std::string pipe =
      "data pack-text - --out " + out_ + " --validation 0.1 --shard-tokens 30 < ";
  write_text(directory_.file("text"), std::string(90, 'a') + "0123456789");

  expect_outcome(
      run(pipe + directory_.file("text")), ExitCode::ok,
      {out_ + "/train: 90 tokens, 1 document in 3 shards", out_ + "/validation: 10 tokens"});
  expect_outcome(run("data inspect " + out_ + " --preview 5"), ExitCode::ok,
                 {"tokens       90", "documents    1", "tokenizer    bytes", "vocabulary   256",
                  "fingerprint", "01234"});
  expect_outcome(run("data inspect --verify " + out_), ExitCode::ok,
                 {"train/shard_00002.h5: good", "validation/shard_00000.h5: good"});
}

TEST_F(DataCommand, NamesTheBrokenShardWithExitCodeThree) {
  write_text(directory_.file("text"), std::string(100, 'a'));
  ASSERT_EQ(
      run("data pack-text " + directory_.file("text") + " --out " + out_ + " --shard-tokens 40")
          .code,
      0);
  std::string bytes = test::read_text(out_ + "/shard_00001.h5");
  bytes[bytes.find(std::string("a\0a\0a\0", 6))] = 'b';
  write_text(out_ + "/shard_00001.h5", bytes);

  expect_outcome(
      run("data inspect --verify " + out_), ExitCode::data,
      {"shard_00000.h5: good", "shard_00001.h5: BROKEN", "1 of 3 files is broken", "block 0 ("});
}

TEST_F(DataCommand, ExplainsEverySubcommandWithAnExample) {
  for (const std::string name : {"data", "data pack-text", "data pack-images", "data inspect",
                                 "data preview", "bench data"}) {
    expect_outcome(run(name + " --help"), ExitCode::ok,
                   {"Example", "trireme " + name.substr(0, name.find(' '))});
  }
}

TEST_F(DataCommand, ReportsUsageErrorsWithExitCodeTwo) {
  expect_outcome(run("data pack-text"), ExitCode::config, {"required"});
  expect_outcome(run("data pack-text x --out y --dtype int7"), ExitCode::config,
                 {"--dtype", "uint16"});
  expect_outcome(run("data polish x"), ExitCode::config, {});
}

TEST_F(DataCommand, ReportsBadDataWithExitCodeThree) {
  expect_outcome(run("data inspect " + directory_.path()), ExitCode::data,
                 {directory_.path(), "no shards"});
  expect_outcome(run("data pack-text /no/such/file --out " + out_), ExitCode::data,
                 {"/no/such/file"});
  expect_nothing_complete(out_);
}

TEST_F(DataCommand, LeavesNothingCompleteBehindWhenKilled) {
  fs::resize_file((write_text(directory_.file("text"), "x"), directory_.file("text")), 64 << 20);
  for (int delay = 0; delay < 60; delay += 6) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl(tool.c_str(), tool.c_str(), "data", "pack-text", directory_.file("text").c_str(),
              "--out", out_.c_str(), "--shard-tokens", "4000000", "--quiet", nullptr);
      ::_exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
      expect_nothing_complete(out_);
    } else {
      EXPECT_EQ(run("data inspect --verify " + out_).code, 0);
    }
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      if (entry.is_directory()) fs::remove_all(entry.path());
    }
  }
}

TEST_F(DataCommand, LeavesNothingBehindAtAFileSizeLimit) {
  write_text(directory_.file("text"), std::string(3 << 20, 'x'));
  for (const int kilobytes : {8, 64, 1024, 5000}) {
    const Outcome outcome = [&] {
      std::FILE* const pipe =
          ::popen(fmt::format("bash -c 'ulimit -f {}; exec {} data pack-text {} --out {}' 2>&1",
                              kilobytes, tool, directory_.file("text"), out_)
                      .c_str(),
                  "r");
      Outcome it;
      char block[4096];
      while (const std::size_t got = std::fread(block, 1, sizeof(block), pipe))
        it.text.append(block, got);
      const int status = ::pclose(pipe);
      it.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      return it;
    }();
    expect_outcome(outcome, ExitCode::internal, {"file size limit", "out"});
    EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()), 1)
        << "only the input is left";
  }
}

TEST_F(DataCommand, ASignalRemovesItsUnfinishedOutput) {
  for (const int signal : {SIGINT, SIGTERM}) {
    int input[2];
    ASSERT_EQ(::pipe(input), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(signal, SIG_DFL);  // background jobs ignore SIGINT at first
      ::dup2(input[0], STDIN_FILENO);
      ::close(input[1]);
      ::execl(tool.c_str(), tool.c_str(), "data", "pack-text", "-", "--out", out_.c_str(), nullptr);
      ::_exit(127);
    }
    ASSERT_EQ(::write(input[1], "text", 4), 4);
    while (fs::is_empty(directory_.path()))  // until the unfinished output exists
      std::this_thread::yield();
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::close(input[0]);
    ::close(input[1]);

    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_TRUE(fs::is_empty(directory_.path()));
  }
}

TEST_F(DataCommand, TheNextPackRemovesAKilledOnesOutput) {
  write_text(directory_.file("text"), "some text");
  const std::string dead = fmt::format("{}.partial-{}-{}", out_, 1 << 30, host_name());
  const std::string elsewhere = out_ + ".partial-1-another.host";
  for (const std::string& left : {dead, elsewhere}) {
    fs::create_directories(left + "/train");
    write_text(left + "/train/shard_00000.h5.tmp", "half a shard");
  }

  expect_outcome(run("data pack-text " + directory_.file("text") + " --out " + out_), ExitCode::ok,
                 {dead + ": removed", elsewhere + ": left by a pack that was interrupted"});
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(elsewhere));
}

TEST_F(DataCommand, WritesOnlyIntoANewOrOwnDirectory) {
  write_text(directory_.file("text"), "some text");
  fs::create_directories(directory_.file("precious"));
  const auto pack_beside = [&](const std::string& plant) {
    write_text(directory_.file("script"),
               fmt::format("stage={}.partial-$$-{}\n{}\nexec {} data pack-text {} --out {}\n", out_,
                           host_name(), plant, tool, directory_.file("text"), out_));
    return run_command("bash " + directory_.file("script"));
  };

  expect_outcome(pack_beside("ln -s " + directory_.file("precious") + " $stage"), ExitCode::config,
                 {out_ + ".partial-", "already exists; remove it"});
  EXPECT_TRUE(fs::is_empty(directory_.file("precious")));
  // A process of the same number, in another container or long ago.
  expect_outcome(pack_beside("mkdir $stage; echo half >$stage/shard_00007.h5"), ExitCode::ok,
                 {"removed; it was left by a pack that was killed"});
  EXPECT_FALSE(fs::exists(out_ + "/train/shard_00007.h5") || fs::exists(out_ + "/shard_00007.h5"));
}

TEST_F(DataCommand, RefusesInvalidAndTooLargeNumbers) {
  for (const std::string option :
       {"--seed -1", "--seed 18446744073709551616", "--seed 1e3", "--seed nan", "--seed 010",
        "--shard-images 0", "--shard-images -5", "--shard-images 99999999999999999999",
        "--max-pixels inf", "--max-pixels 0x10", "--threads 0", "--threads 1025", "--threads 1.5",
        "--resize 65537", "--channels 2", "--classes -1", "--validation nan", "--validation 1"}) {
    SCOPED_TRACE(option);
    expect_outcome(run("data pack-images " + directory_.path() + " --out " + out_ + " " + option),
                   ExitCode::config, {option.substr(0, option.find(' '))});
    EXPECT_FALSE(fs::exists(out_));
  }
}

TEST_F(DataCommand, APipeInThePlaceOfAClassFileIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(directory_.file("classes").c_str(), 0600), 0);

  expect_outcome(run("data pack-images " + directory_.path() + " --out " + out_ + " --class-file " +
                     directory_.file("classes")),
                 ExitCode::data, {"classes: is not a regular file but a pipe"});
}

TEST_F(DataCommand, WritesOneLayoutForEveryFraction) {
  write_text(directory_.file("text"), "some text");
  expect_outcome(
      run("data pack-text " + directory_.file("text") + " --out " + out_ + " --validation 0"),
      ExitCode::ok, {out_ + "/train: 9 tokens"});
  EXPECT_FALSE(fs::exists(out_ + "/validation"));
  EXPECT_FALSE(fs::exists(out_ + "/shard_00000.h5"));
}

TEST_F(DataCommand, PreviewsShortSetsToTheirLastToken) {
  for (const std::string text : {"x", "ab", "short"}) {
    write_text(directory_.file("text"), text);
    ASSERT_EQ(
        run("data pack-text " + directory_.file("text") + " --force --shard-tokens 2 --out " + out_)
            .code,
        0);
    expect_outcome(run("data inspect " + out_ + " --preview 5"), ExitCode::ok,
                   {"\n" + text + "\n"});
  }
}

TEST_F(DataCommand, ReportsWhatADirectoryLeavesOut) {
  fs::create_directories(directory_.file("in/sub"));
  write_text(directory_.file("in/a"), "first ");
  write_text(directory_.file("in/sub/b"), "second");
  write_text(directory_.file("in/.hidden"), "hidden");
  write_text(directory_.file("in/empty"), "");
  write_text(directory_.file("apart"), "!");
  fs::create_symlink(directory_.file("apart"), directory_.file("in/z"));
  fs::create_symlink("a", directory_.file("in/0"));
  fs::create_symlink(".", directory_.file("in/sub/loop"));
  fs::create_symlink("nothing", directory_.file("in/dangling"));

  expect_outcome(run("data pack-text " + directory_.file("in") + " --out " + out_), ExitCode::ok,
                 {"1 hidden (" + directory_.file("in/.hidden") + ")",
                  "2 linked twice (" + directory_.file("in/0") + ", ...)",
                  "1 broken links (" + directory_.file("in/dangling") + ")", "1 empty input",
                  "13 tokens, 3 documents"});
  expect_outcome(run("data inspect " + out_ + " --preview 20"), ExitCode::ok, {"first second!"});
}

TEST_F(DataCommand, PacksWithTheClassesOfAnotherDataSet) {
  const std::string image = png_of(pattern(4, 4, 1, 1));
  for (const std::string folder : {"a/ant", "a/bee", "a/cow", "b/cow"}) {
    fs::create_directories(directory_.file(folder));
    write_text(directory_.file(folder + "/1.png"), image);
  }
  ASSERT_EQ(run("data pack-images " + directory_.file("a") + " --out " + out_ + "/train").code, 0);
  const std::string second = "data pack-images " + directory_.file("b") + " --out " + out_ +
                             "/validation --classes-of " + out_;

  expect_outcome(run(second + "/train --resize 0"), ExitCode::config, {"--resize"});
  expect_outcome(run(second), ExitCode::ok, {"1 images in 1 shard"});
  expect_outcome(run("data inspect " + out_ + "/validation --preview 1"), ExitCode::ok,
                 {"3: ant, bee, cow", "class 2 (cow)"});
}

// A small file system; needs the right to mount.
class FullDisk : public DataCommand {
 protected:
  void SetUp() override {
    fs::create_directory(disk_);
    if (::mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=4m") != 0)
      GTEST_SKIP() << "no right to mount a tmpfs here";
    mounted_ = true;
    write_text(directory_.file("text"), std::string(3 << 20, 'x'));
  }
  void TearDown() override {
    if (mounted_) ::umount2(disk_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] std::uint64_t used() const {
    return fs::space(disk_).capacity - fs::space(disk_).free;
  }

  std::string disk_ = directory_.file("disk");
  bool mounted_ = false;
};

TEST_F(FullDisk, IsNamedAndLeftAsItWas) {
  const std::uint64_t before = used();

  const Outcome outcome =
      run("data pack-text " + directory_.file("text") + " --out " + disk_ + "/out");

  expect_outcome(outcome, ExitCode::internal, {disk_ + "/out", "the disk is full"});
  EXPECT_TRUE(fs::is_empty(disk_));
  EXPECT_EQ(used(), before);
}

TEST_F(FullDisk, KeepsTheOldDataSetWhenItsReplacementDoesNotFit) {
  write_text(directory_.file("small"), "a small text");
  ASSERT_EQ(run("data pack-text " + directory_.file("small") + " --out " + disk_ + "/out").code, 0);

  expect_outcome(
      run("data pack-text " + directory_.file("text") + " --force --out " + disk_ + "/out"),
      ExitCode::internal, {"the disk is full"});

  expect_outcome(run("data inspect " + disk_ + "/out --preview 5"), ExitCode::ok, {"a sma"});
}

TEST_F(FullDisk, FailsCleanlyAtEveryAmountOfSpace) {
  write_text(directory_.file("small"), std::string(5000, 'x'));
  const std::string ballast = disk_ + "/ballast";
  for (std::uint64_t free_bytes = 0; free_bytes <= 120 << 10; free_bytes += 4 << 10) {
    write_text(ballast, "");
    write_text(ballast, std::string(fs::space(disk_).available - free_bytes, 'x'));
    const Outcome outcome =
        run("data pack-text " + directory_.file("small") + " --force --out " + disk_ + "/out");
    if (outcome.code == 0) {
      EXPECT_EQ(run("data inspect --verify " + disk_ + "/out").code, 0);
      fs::remove_all(disk_ + "/out");
    } else {
      EXPECT_FALSE(fs::exists(disk_ + "/out")) << free_bytes;
      EXPECT_NE(outcome.text.find("disk"), std::string::npos) << outcome.text;
      EXPECT_EQ(std::distance(fs::directory_iterator(disk_), fs::directory_iterator()), 1)
          << free_bytes;
    }
  }
}

TEST_F(DataCommand, BenchmarksASmallDataSet) {
  write_text(directory_.file("text"), std::string(20000, 'a'));
  ASSERT_EQ(
      run("data pack-text " + directory_.file("text") + " --out " + out_ + " --shard-tokens 7000")
          .code,
      0);

  expect_outcome(
      run("bench data " + out_ + " --context 64 --rounds 1 --seconds 0.002 --h5py-script none"),
      ExitCode::ok,
      {"plain pread", "Trireme reader", "Trireme loader", "not measured", "--h5py-script"});
  expect_outcome(run("bench data " + out_ + " --context 50000 --rounds 1"), ExitCode::data,
                 {"20000 tokens"});
}

TEST_F(DataCommand, ABenchmarkBesideOtherProgramsSaysSo) {
  write_text(directory_.file("text"), std::string(20000, 'a'));
  ASSERT_EQ(run("data pack-text " + directory_.file("text") + " --out " + out_).code, 0);

  expect_outcome(
      run_command("p=; for i in $(seq $(nproc)); do while :; do :; done & p=\"$p $!\"; done; " +
                  tool + " bench data " + out_ +
                  " --context 64 --rounds 1 --seconds 0.05 --h5py-script none 2>&1; kill $p; true"),
      ExitCode::ok, {"other processes disturbed the measurement (other processes used"});
}

TEST_F(DataCommand, TokensOfMegatronAreVerifiedShownAndMeasured) {
  const std::string prefix = directory_.file("corpus");
  write_text(prefix + ".idx", test::megatron_index({4000}, {0, 1}, 8));
  write_text(prefix + ".bin",
             test::megatron_data<std::uint16_t>(std::vector<std::int64_t>(4000, 17)));

  expect_outcome(run("data inspect --verify " + prefix), ExitCode::ok, {"corpus.bin: good"});
  expect_outcome(run("data inspect " + prefix + " --preview 3"), ExitCode::ok,
                 {"4000", "17 17 17"});
  expect_outcome(run("bench data " + prefix + " --context 64 --rounds 1 --seconds 0.002"),
                 ExitCode::ok, {"62 samples of 130 bytes", "plain pread", "Trireme loader"});
  write_text(prefix + ".bin", "cut");
  expect_outcome(run("data inspect --verify " + prefix), ExitCode::data,
                 {"BROKEN", "1 of 1 files is broken"});
}

}  // namespace
}  // namespace trireme
