// SPDX-License-Identifier: Apache-2.0
// Copies of data files on a disk of the host: whole or not read, whatever interrupts them.
#include "data/staging/staging.h"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "tests/checkpoint/faulty_calls.h"
#include "tests/data/edit_shard.h"
#include "tests/data/make_data.h"
#include "tests/data/make_megatron.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::read_text;
using test::write_text;
using testing::HasSubstr;
using State = StagedCopy::State;

constexpr std::uint64_t piece = 64 * 1024;

bool never() {
  return false;
}

class StagingTest : public testing::Test {
 protected:
  // A file of random bytes in pieces, the last one short.
  StageSource source(const std::string& name, std::uint64_t bytes = 5 * piece - 1000) {
    std::string text(bytes, '\0');
    for (char& byte : text)
      byte = static_cast<char>(random_());
    write_text(directory_.file(name), text);
    return state_of(name);
  }
  [[nodiscard]] StageSource state_of(const std::string& name) const {
    const std::string path = directory_.file(name);
    return {.path = path, .state = state_of_file(path), .piece_bytes = piece};
  }
  [[nodiscard]] StageDirectory reserved(const std::vector<StageSource>& sources,
                                        std::uint64_t limit = 0) {
    StageDirectory directory(stage_);
    plan_ = directory.reserve(sources, limit);
    return directory;
  }
  // By one process of a separate job.
  State copy(StagedCopy& work) {
    State state = State::worked;
    while (state == State::worked)
      state = work.advance(never);
    return state;
  }
  [[nodiscard]] std::string copy_of(const StageSource& source) const {
    return own() + "/" + source.copy_name();
  }
  [[nodiscard]] std::string own() const {
    return fmt::format("{}/trireme-{}", stage_, ::geteuid());
  }
  [[nodiscard]] std::vector<std::string> copies() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(own())) {
      if (entry.path().extension() == ".copy") names.push_back(entry.path().filename().string());
    }
    return names;
  }
  static void expect_read_there(const StageSource& source, const std::string& copy) {
    ASSERT_TRUE(LocalCopy::of(source.path)->is_there());
    EXPECT_EQ(LocalCopy::of(source.path)->path(), copy);
    EXPECT_TRUE(read_text(copy) == read_text(source.path));
  }

  test::TemporaryDirectory directory_;
  std::string stage_ = directory_.file("stage");
  StagingPlan plan_;
  std::uint64_t job_ = 1;
  std::mt19937 random_{7};
};

TEST_F(StagingTest, ReadersUseACompleteCopy) {
  const StageSource file = source("file");
  const StageDirectory directory = reserved({file});
  StagedCopy work(file, directory.files(), job_);
  int asked = 0;

  EXPECT_EQ(work.advance([&] { return ++asked > 4; }), State::waiting);
  EXPECT_FALSE(LocalCopy::of(file.path)->is_there());
  EXPECT_EQ(copy(work), State::complete);

  expect_read_there(file, copy_of(file));
  EXPECT_EQ(plan_.files, 1U);
  EXPECT_EQ(work.bytes_copied(), file.state.size);
}

TEST_F(StagingTest, ProcessesOfAJobShareThePiecesAndAllReadTheCopy) {
  const StageSource file = source("file", 40 * piece);
  const StageDirectory directory = reserved({file});
  StagedCopy first(file, directory.files(), job_), second(file, directory.files(), job_);
  std::vector<State> states(2, State::worked);
  const auto until_complete = [&](StagedCopy& work, State& state) {
    while (state == State::worked || state == State::waiting)
      state = work.advance(never);
  };
  {
    const std::jthread beside([&] { until_complete(second, states[1]); });
    until_complete(first, states[0]);
  }

  EXPECT_THAT(states, testing::Each(State::complete));
  EXPECT_EQ(first.bytes_copied() + second.bytes_copied(), file.state.size);
  expect_read_there(file, copy_of(file));
}

TEST_F(StagingTest, AKilledJobsCopiesAreVerifiedAndKept) {
  const StageSource file = source("file", 20 * piece);
  const pid_t child = ::fork();
  if (child == 0) {
    const StageDirectory directory = reserved({file});
    int asked = 0;
    static_cast<void>(StagedCopy(file, directory.files(), job_).advance([&] {
      if (++asked > 20) ::_exit(0);
      return false;
    }));
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);

  const StageDirectory directory = reserved({file});
  StagedCopy work(file, directory.files(), ++job_);
  EXPECT_EQ(copy(work), State::complete);
  EXPECT_GT(work.bytes_copied(), 0U);
  EXPECT_LT(work.bytes_copied(), file.state.size);
  expect_read_there(file, copy_of(file));
}

TEST_F(StagingTest, ADamagedPieceOfAKeptCopyIsCopiedAgain) {
  const StageSource file = source("file");
  const StageDirectory directory = reserved({file});
  ASSERT_EQ(copy(*std::make_unique<StagedCopy>(file, directory.files(), job_)), State::complete);
  test::flip_bit(copy_of(file), 2 * piece + 17);
  fs::permissions(copy_of(file), fs::perms::owner_all);

  StagedCopy work(file, directory.files(), ++job_);
  EXPECT_EQ(copy(work), State::complete);
  EXPECT_EQ(work.bytes_copied(), piece);
  expect_read_there(file, copy_of(file));
}

TEST_F(StagingTest, AnotherStateOfAFileIsAnotherCopyAndReplacesTheOld) {
  StageSource file = source("file");
  {
    const StageDirectory directory = reserved({file});
    StagedCopy work(file, directory.files(), job_);
    ASSERT_EQ(copy(work), State::complete);
  }
  const std::string old = file.copy_name();
  file = source("file", 3 * piece);
  const StageDirectory directory = reserved({file});
  StagedCopy work(file, directory.files(), ++job_);

  EXPECT_EQ(copy(work), State::complete);
  EXPECT_NE(file.copy_name(), old);
  EXPECT_THAT(copies(), testing::ElementsAre(file.copy_name()));
  expect_read_there(file, copy_of(file));
}

TEST_F(StagingTest, AFileThatChangesWhileCopiedIsReadInPlace) {
  const StageSource file = source("file");
  const StageDirectory directory = reserved({file});
  StagedCopy first(file, directory.files(), job_), second(file, directory.files(), job_);
  int asked = 0;
  EXPECT_EQ(first.advance([&] { return ++asked > 4; }), State::waiting);
  static_cast<void>(source("file", 3 * piece));

  EXPECT_EQ(copy(first), State::given_up);
  EXPECT_EQ(copy(second), State::given_up);
  EXPECT_FALSE(LocalCopy::of(file.path)->is_there());
  EXPECT_THAT(copies(), testing::IsEmpty());
}

TEST_F(StagingTest, OnlyTheFirstFilesThatFitAreCopied) {
  const std::vector<StageSource> files = {source("a", 200'000), source("b", 200'000),
                                          source("c", 50'000)};
  const std::uint64_t limit = 300'000;
  const StageDirectory directory = reserved(files, limit);

  EXPECT_EQ(plan_.files, 2U);
  EXPECT_EQ(plan_.files_left_out, 1U);
  EXPECT_THAT(plan_.left_out, testing::AllOf(HasSubstr(files[1].path), HasSubstr("200000 bytes")));
  EXPECT_LE(plan_.bytes, limit);
  EXPECT_THAT(copies(), testing::UnorderedElementsAre(files[0].copy_name(), files[2].copy_name()));
  StagedCopy left_out(files[1], directory.files(), job_);
  EXPECT_EQ(copy(left_out), State::given_up);
}

TEST_F(StagingTest, CopiesOfOtherDataAreRemovedUnlessAJobUsesTheDirectory) {
  const std::vector<StageSource> before = {source("a", 100'000), source("b", 100'000)};
  const std::vector<StageSource> now = {source("c", 150'000)};
  constexpr std::uint64_t limit = 260'000;
  {
    const StageDirectory in_use = reserved(before, limit);
    const StageDirectory second = reserved(now, limit);
    EXPECT_EQ(plan_.files, 0U) << "100 kB and twice 100 kB more are too much";
    EXPECT_EQ(copies().size(), 2U);
  }
  fs::last_write_time(copy_of(before[1]), fs::file_time_type::min());
  fs::last_write_time(own() + "/" + before[1].ledger_name(), fs::file_time_type::min());

  const StageDirectory directory = reserved(now, limit);
  EXPECT_EQ(plan_.files, 1U);
  EXPECT_THAT(copies(), testing::UnorderedElementsAre(before[0].copy_name(), now[0].copy_name()));
}

TEST_F(StagingTest, TwoJobsAtOnceMakeOneCopy) {
  std::vector<StageSource> files;
  for (int i = 0; i < 6; ++i)
    files.push_back(source(fmt::format("file{}", i), 8 * piece));
  {
    Staging first(reserved(files), files, 1, true), second(reserved(files), files, 2, false);
    first.wait();
    second.wait();
    for (const StageSource& file : files)
      expect_read_there(file, copy_of(file));
  }
  EXPECT_EQ(copies().size(), files.size());
}

TEST_F(StagingTest, ADamagedShardIsNotReadFromItsCopy) {
  const std::string data = directory_.file("data");
  test::write_token_dataset(data, test::counting_tokens(30'000, 251), 15'000, 251);
  const auto set = Dataset::open(data, {.context = 10});
  const std::vector<const Dataset*> sets = {set.get(), set.get()};
  test::flip_bit(data + "/" + shard_file_name(1),
                 open_shard(data + "/" + shard_file_name(1)).data_offset + 12'345);
  const std::vector<StageSource> files = stage_sources(sets);
  ASSERT_EQ(files.size(), 2U);

  Staging staging(reserved(files), files, job_, true);
  staging.wait();

  expect_read_there(files[0], copy_of(files[0]));
  EXPECT_FALSE(LocalCopy::of(files[1].path)->is_there());
}

TEST_F(StagingTest, TokensOfMegatronAreReadFromTheCopyWithTheSameFingerprint) {
  const std::string prefix = directory_.file("corpus");
  std::vector<std::int64_t> tokens(5000);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int64_t>(i);
  write_text(prefix + ".idx", test::megatron_index({5000}, {0, 1}, 8));
  write_text(prefix + ".bin", test::megatron_data<std::uint16_t>(tokens));
  const auto set = Dataset::open(prefix, {.context = 100});
  const std::vector<const Dataset*> sets = {set.get()};
  const std::vector<StageSource> files = stage_sources(sets);
  Staging staging(reserved(files), files, job_, true);
  staging.wait();
  expect_read_there(files[0], copy_of(files[0]));

  EXPECT_EQ(Dataset::open(prefix, {.context = 100})->fingerprint(), set->fingerprint());
  fs::resize_file(prefix + ".bin", 10);  // the file is not read any more
  constexpr std::chrono::milliseconds until_looked_at_again(20);
  std::this_thread::sleep_for(until_looked_at_again);
  std::vector<std::int32_t> window(100), targets(100);
  set->read(48, std::as_writable_bytes(std::span(window)), targets);
  EXPECT_EQ(window.front(), 4800);
}

TEST_F(StagingTest, ADirectoryThatCannotBeUsedIsRefusedByItsKey) {
  write_text(directory_.file("text"), "no directory");
  for (const std::string& path : {directory_.file("text") + "/stage", std::string("/proc/stage")})
    expect_error(
        ExitCode::config, [&] { const StageDirectory directory(path); }, "data.stage", path);
  fs::create_directories(own());
  fs::permissions(own(), fs::perms::all);
  expect_error(
      ExitCode::config, [&] { const StageDirectory directory(stage_); }, own(), "only this user");
}

// If a write, open or truncate fails, the original file is read.
TEST_F(StagingTest, AfterAnyFailedCallTheCopyIsWholeOrNotRead) {
  const StageSource file = source("file", 2 * piece);
  std::size_t failures = 0;
  for (int nth = 0;; ++nth) {
    fs::remove_all(stage_);
    const auto readers = LocalCopy::of(file.path);
    std::optional<State> state;
    const bool full = nth % 2 == 0;
    test::arm_fault(stage_, full ? test::Fault::no_space : test::Fault::io_error, nth);
    const auto error = test::error_of([&] {
      const StageDirectory directory = reserved({file});
      StagedCopy work(file, directory.files(), job_ + static_cast<std::uint64_t>(nth));
      state = copy(work);
    });
    const std::string failed = test::failed_call();
    test::disarm_faults();

    EXPECT_EQ(readers->is_there(), state == State::complete) << failed;
    if (readers->is_there()) expect_read_there(file, copy_of(file));
    if (failed.empty()) break;
    ++failures;
    if (error) {
      EXPECT_EQ(error->code(), full ? ExitCode::internal : ExitCode::config) << error->what();
    }
    if (state == State::given_up && failed != "openat") {
      EXPECT_FALSE(fs::exists(copy_of(file))) << failed;
    }
  }
  EXPECT_GT(failures, 5U);
}

// A small file system; needs the right to mount.
TEST_F(StagingTest, AFullDiskIsNamedWithFileAndBytesAndTheRestIsCopied) {
  fs::create_directory(stage_);
  if (::mount("tmpfs", stage_.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "no right to mount a tmpfs here";
  const std::vector<StageSource> files = {source("a", 600'000), source("b", 600'000)};
  {
    Staging staging(reserved(files), files, job_, true);
    staging.wait();
    expect_read_there(files[0], copy_of(files[0]));
  }
  EXPECT_THAT(plan_.problem, testing::AllOf(HasSubstr(files[1].path), HasSubstr("600000 bytes"),
                                            HasSubstr("the disk is full")));
  EXPECT_FALSE(LocalCopy::of(files[1].path)->is_there());
  ASSERT_EQ(::umount2(stage_.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace trireme
