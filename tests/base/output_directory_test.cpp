// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/output_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "runtime/base/atomic_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

constexpr ExitCode code = ExitCode::config;

class OutputDirectoryTest : public testing::Test {
 protected:
  OutputDirectoryTest() { write_text(precious(), "mine"); }
  void TearDown() override { EXPECT_EQ(read_text(precious()), "mine"); }

  [[nodiscard]] std::string precious() const { return elsewhere_.file("precious"); }
  void plant_link(const std::string& name) const { fs::create_symlink(precious(), at(name)); }
  [[nodiscard]] std::string at(const std::string& name) const { return place_.file(name); }
  [[nodiscard]] OutputDirectory directory() const { return {place_.path(), code}; }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(place_.path()))
      found.insert(entry.path().filename().string());
    return found;
  }
  static void put(const FileDescriptor& file, std::string_view text) {
    write_fully(file, "file", std::as_bytes(std::span(text)), code);
  }
  // The files of a process that was killed while it wrote "file".
  void kill_a_writer() const {
    const pid_t child = ::fork();
    if (child == 0) {
      AtomicFile file(at("file"), code);
      file.write("half");
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

 private:
  TemporaryDirectory place_, elsewhere_;
};

TEST_F(OutputDirectoryTest, ANewFileReplacesALinkOrAFileButNotTheLinksTarget) {
  plant_link("link");
  fs::create_hard_link(precious(), at("hard"));
  write_text(at("old"), "a longer text");

  for (const char* const name : {"link", "hard", "old"})
    put(directory().create(name, O_WRONLY), "new");

  for (const char* const name : {"link", "hard", "old"}) {
    EXPECT_FALSE(fs::is_symlink(at(name))) << name;
    EXPECT_EQ(read_text(at(name)), "new") << name;
  }
}

TEST_F(OutputDirectoryTest, AnAppendedFileIsOpenedButNoLinkPipeOrDirectory) {
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND;
  put(directory().open("log", flags), "one ");
  put(directory().open("log", flags), "two");
  EXPECT_EQ(read_text(at("log")), "one two");

  plant_link("link");
  fs::create_symlink("nothing", at("dangling"));
  for (const char* const name : {"link", "dangling"}) {
    expect_error(
        code, [&] { static_cast<void>(directory().open(name, flags)); }, at(name),
        "is a symbolic link", "remove it, or make the directory itself a link");
  }
  EXPECT_FALSE(fs::exists(at("nothing")));
  fs::create_hard_link(precious(), at("hard"));
  for (const int how : {flags, O_WRONLY | O_APPEND}) {
    expect_error(
        code, [&] { static_cast<void>(directory().open("hard", how)); }, at("hard"),
        "is a hard link", "replace it by a copy");
  }
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  expect_error(
      code, [&] { static_cast<void>(directory().open("pipe", flags)); }, at("pipe"),
      "is not a regular file but a pipe");
  fs::create_directory(at("folder"));
  expect_error(
      code, [&] { static_cast<void>(directory().open("folder", flags)); }, at("folder"));
}

TEST_F(OutputDirectoryTest, LinksMayLeadToADirectoryButNotOutOfIt) {
  const TemporaryDirectory outside;
  fs::create_directory(at("real"));
  fs::create_directory_symlink(at("real"), at("runs"));
  const OutputDirectory runs(at("runs"), code);
  put(runs.subdirectory("checkpoints").create("a", O_WRONLY), "x");
  EXPECT_EQ(read_text(at("real/checkpoints/a")), "x");

  fs::create_directory_symlink(outside.path(), at("real/planted"));
  expect_error(
      code, [&] { static_cast<void>(runs.subdirectory("planted")); }, at("runs/planted"),
      "is a symbolic link");
  write_text(at("real/file"), "");
  expect_error(
      code, [&] { static_cast<void>(runs.subdirectory("file")); }, at("runs/file"), "ENOTDIR");
  EXPECT_TRUE(fs::is_empty(outside.path()));
}

TEST_F(OutputDirectoryTest, TemporaryNamesAreUnpredictable) {
  const auto [first, file] = directory().create_temporary("file");
  const auto [second, other] = directory().create_temporary("file");

  EXPECT_NE(first, second);
  EXPECT_TRUE(first.starts_with("file.") && first.ends_with(".tmp")) << first;
  EXPECT_EQ(first.size(), std::string("file.0123456789abcdef.tmp").size());
}

TEST_F(OutputDirectoryTest, AnAtomicFileReplacesALinkOfItsName) {
  plant_link("file");
  plant_link("file.tmp");

  write_file(at("file"), "new", code);

  EXPECT_FALSE(fs::is_symlink(at("file")));
  EXPECT_EQ(read_text(at("file")), "new");
}

TEST_F(OutputDirectoryTest, TheNextWriterRemovesOnlyAKilledWritersTemporary) {
  write_text(at("file.tmp"), "foreign");
  write_text(at("file.0123456789abcde.tmp"), "foreign");    // a digit short
  write_text(at("other.0123456789abcdef.tmp"), "foreign");  // of another file
  plant_link("file.fedcba9876543210.tmp");
  const std::set<std::string> foreign = names();
  kill_a_writer();
  ASSERT_EQ(names().size(), foreign.size() + 1);

  {
    AtomicFile next(at("file"), code);
    EXPECT_EQ(names().size(), foreign.size() + 1);  // its own file
    kill_a_writer();
    write_file(at("file"), "beside it", code);
    next.write("last");
    next.commit();
  }

  EXPECT_EQ(read_text(at("file")), "last");
  std::set<std::string> expected = foreign;
  expected.insert("file");
  EXPECT_EQ(names(), expected);

  directory().remove_dead_temporaries("");
  expected.erase("other.0123456789abcdef.tmp");
  EXPECT_EQ(names(), expected);
}

}  // namespace
}  // namespace trireme
