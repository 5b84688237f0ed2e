// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/base/atomic_file.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "trireme_file_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (directory_ / name).string();
  }
  [[nodiscard]] static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory_), {}));
  }

  template <typename Action>
  static std::string data_error(Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      return error.what();
    }
    ADD_FAILURE() << "nothing was raised";
    return "";
  }

  std::filesystem::path directory_;
};

TEST_F(FileTest, WrittenFileHoldsTheTextAndLeavesNoTemporary) {
  write_file(path("a"), std::string("one\0two", 7), ExitCode::data);
  write_file(path("a"), "second", ExitCode::data);
  write_file(path("empty"), "", ExitCode::data);

  EXPECT_EQ(contents(path("a")), "second");
  EXPECT_EQ(contents(path("empty")), "");
  EXPECT_EQ(files(), 2U);
}

TEST_F(FileTest, UncommittedFileLeavesTheOldOneAlone) {
  write_file(path("a"), "old", ExitCode::data);

  {
    AtomicFile file(path("a"), ExitCode::data);
    file.write("half of the n");
  }

  EXPECT_EQ(contents(path("a")), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, NothingAppearsBeforeCommit) {
  AtomicFile file(path("a"), ExitCode::data);
  file.write("new");
  EXPECT_FALSE(std::filesystem::exists(path("a")));

  file.commit();

  EXPECT_EQ(contents(path("a")), "new");
}

TEST_F(FileTest, RelativeNameWithoutADirectoryIsWrittenHere) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);

  write_file("here", "text", ExitCode::data);

  std::filesystem::current_path(before);
  EXPECT_EQ(contents(path("here")), "text");
}

TEST_F(FileTest, MissingDirectoryIsNamed) {
  EXPECT_THAT(data_error([&] { write_file(path("no/such/a"), "x", ExitCode::data); }),
              HasSubstr("no/such does not exist; create it first"));
}

TEST_F(FileTest, DirectoriesAndDevicesAreNotReplaced) {
  std::filesystem::create_directory(path("taken"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", path("link"));

  const auto error = [&](const std::string& to) {
    return data_error([&] { write_file(to, "x", ExitCode::data); });
  };
  EXPECT_THAT(error(path("taken")), HasSubstr("is a directory; name a file"));
  for (const std::string& to : {path("pipe"), path("link"), std::string("/dev/stdout")})
    EXPECT_THAT(error(to), HasSubstr(to + ": is a device or a pipe"));
  EXPECT_EQ(files(), 3U);
}

TEST_F(FileTest, FailedRenameRemovesTheTemporary) {
  EXPECT_THAT(data_error([&] {
                AtomicFile file(path("taken"), ExitCode::data);
                std::filesystem::create_directory(path("taken"));
                file.commit();
              }),
              HasSubstr("taken: cannot be written"));
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, FullDeviceIsReported) {
  const FileDescriptor full(open("/dev/full", O_WRONLY));
  if (!full.is_open()) GTEST_SKIP() << "no /dev/full here";
  const std::array<std::byte, 3> data{};

  EXPECT_THAT(data_error([&] { write_fully(full, "/dev/full", data, ExitCode::data); }),
              HasSubstr("ENOSPC"));
}

TEST_F(FileTest, ADirectoryInAFilesPlaceIsNamedWithoutOurSource) {
  std::filesystem::create_directory(path("metrics.jsonl"));
  const OutputDirectory directory(directory_.string(), ExitCode::internal);

  try {
    static_cast<void>(directory.open("metrics.jsonl", O_WRONLY | O_CREAT));
    ADD_FAILURE() << "nothing was raised";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path("metrics.jsonl")), Not(HasSubstr(".cpp"))));
  }
}

TEST_F(FileTest, AFullDiskIsNoFaultOfTheConfiguration) {
  const FileDescriptor full(open("/dev/full", O_WRONLY));
  if (!full.is_open()) GTEST_SKIP() << "no /dev/full here";
  const std::array<std::byte, 3> data{};

  try {
    write_fully(full, "/dev/full", data, ExitCode::config);
    ADD_FAILURE() << "nothing was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
  }
  EXPECT_EQ(code_of_failed_write(EDQUOT, ExitCode::config), ExitCode::internal);
  EXPECT_EQ(code_of_failed_write(ENOSPC, ExitCode::checkpoint), ExitCode::checkpoint);
  EXPECT_EQ(code_of_failed_write(EACCES, ExitCode::config), ExitCode::config);
}

TEST_F(FileTest, ReadsExactlyWhatWasAskedFor) {
  write_file(path("a"), "0123456789", ExitCode::data);
  const FileDescriptor file = open_for_reading(path("a"), ExitCode::data);
  std::array<std::byte, 3> part{};

  read_exactly(file, path("a"), 4, part, ExitCode::data);

  EXPECT_EQ(static_cast<char>(part[0]), '4');
  EXPECT_EQ(static_cast<char>(part[2]), '6');
  EXPECT_EQ(regular_file_size(file, path("a"), ExitCode::data), 10U);
}

TEST_F(FileTest, EarlyEndNamesThePlaceAndWhatIsMissing) {
  write_file(path("a"), "0123456789", ExitCode::data);
  const FileDescriptor file = open_for_reading(path("a"), ExitCode::data);
  std::array<std::byte, 5> part{};

  EXPECT_THAT(data_error([&] { read_exactly(file, path("a"), 8, part, ExitCode::data); }),
              HasSubstr("a: ends at byte 10, 3 bytes too early"));
}

TEST_F(FileTest, MissingFileAndDirectoryAreRefused) {
  EXPECT_THAT(data_error([&] { static_cast<void>(open_for_reading(path("no"), ExitCode::data)); }),
              HasSubstr("ENOENT"));

  const FileDescriptor directory = open_for_reading(directory_.string(), ExitCode::data);
  EXPECT_THAT(
      data_error([&] { static_cast<void>(regular_file_size(directory, "dir", ExitCode::data)); }),
      HasSubstr("dir: is not a regular file"));
}

TEST_F(FileTest, DescriptorMovesAndClosesOnce) {
  write_file(path("a"), "x", ExitCode::data);
  FileDescriptor first = open_for_reading(path("a"), ExitCode::data);

  FileDescriptor second = std::move(first);
  EXPECT_FALSE(first.is_open());  // NOLINT: the moved-from state is what is tested
  EXPECT_TRUE(second.is_open());

  second.close(path("a"), ExitCode::data);
  second.close(path("a"), ExitCode::data);
  EXPECT_FALSE(second.is_open());
}

}  // namespace
}  // namespace trireme
