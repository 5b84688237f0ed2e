// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/run_owner.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

TEST(RunOwner, ASecondOwnerIsRefusedWithTheNameOfTheFirst) {
  const TemporaryDirectory run;
  RunOwner first(run.path());
  first.take();
  const std::string notes = read_text(run.file("owner.json"));

  expect_error(
      ExitCode::config, [&] { RunOwner(run.path(), 0).take(); }, run.path(), "is in use by process",
      std::to_string(::getpid()), "choose another run.directory");
  expect_error(
      ExitCode::config, [&] { RunOwner(run.path(), 0).take_if_there(); }, "is in use by process");
  EXPECT_EQ(read_text(run.file("owner.json")), notes);
  EXPECT_NO_THROW(first.require());
}

TEST(RunOwner, NoFileIsCreatedBeforeTheLock) {
  const TemporaryDirectory run;

  RunOwner(run.path()).take_if_there();

  EXPECT_TRUE(std::filesystem::is_empty(run.path()));
}

TEST(RunOwner, AnOwnerThatWasKilledLeavesTheDirectoryToTheNext) {
  const TemporaryDirectory run;
  const pid_t child = ::fork();
  if (child == 0) {
    RunOwner owner(run.path());
    owner.take();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  RunOwner next(run.path(), 0);
  next.take_if_there();
  next.take();
  EXPECT_EQ(next.epoch(), 2);
}

TEST(RunOwner, NotesTheEndOfARunUntilTheNextStart) {
  const TemporaryDirectory run;
  {
    RunOwner owner(run.path());
    owner.take();
    EXPECT_FALSE(RunOwner::end_of(run.path()));
    owner.end(40);
    EXPECT_NO_THROW(owner.require());
  }
  EXPECT_EQ(RunOwner::end_of(run.path()), 40);

  RunOwner next(run.path());
  next.take();
  EXPECT_EQ(next.epoch(), 2);
  EXPECT_FALSE(RunOwner::end_of(run.path()));
}

TEST(RunOwner, ATakenOverOwnerMayNotCommit) {
  const TemporaryDirectory run;
  RunOwner first(run.path());
  first.take();
  EXPECT_EQ(first.epoch(), 1);
  // As if the server had lost the lock.
  std::filesystem::remove(run.file("owner.lock"));
  RunOwner second(run.path());
  second.take();

  EXPECT_EQ(second.epoch(), 2);
  EXPECT_NO_THROW(second.require());
  expect_error(
      ExitCode::config, [&] { first.require(); }, run.path(), "belongs to process");
  std::filesystem::remove(run.file("owner.json"));
  expect_error(
      ExitCode::config, [&] { second.require(); }, "belongs to nobody");
}

TEST(RunOwner, ADamagedNoteIsIgnoredAndALinkNotFollowed) {
  const TemporaryDirectory run;
  for (const char* const text : {"", "{", "[1]", R"({"epoch": "7"})", R"({"epoch": -3})"}) {
    write_text(run.file("owner.json"), text);
    RunOwner owner(run.path(), 0);
    owner.take();
    EXPECT_EQ(owner.epoch(), 1) << text;
  }
  std::filesystem::remove(run.file("owner.lock"));
  std::filesystem::create_symlink(run.file("target"), run.file("owner.lock"));
  expect_error(
      ExitCode::config, [&] { RunOwner(run.path(), 0).take(); }, "owner.lock",
      "is a symbolic link");
  EXPECT_FALSE(std::filesystem::exists(run.file("target")));
}

TEST(LockSupport, MountsWithHostLocalLocksAreFound) {
  const std::string mounts =
      "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
      "30 22 0:40 / /home rw shared:1 - nfs4 server:/home rw,vers=4.2,local_lock=none\n"
      "31 22 0:41 / /old rw - nfs server:/old rw,vers=3,nolock,local_lock=all\n"
      "32 22 0:42 / /scratch rw - lustre mds:/s rw,localflock\n"
      "33 31 8:2 / /old/disk rw - xfs /dev/sdb rw\n";

  EXPECT_EQ(why_locks_are_local(mounts, "/tmp/run"), "");
  EXPECT_EQ(why_locks_are_local(mounts, "/home/me/run"), "");
  EXPECT_EQ(why_locks_are_local(mounts, "/old/run"), "/old (nfs) is mounted with nolock");
  EXPECT_EQ(why_locks_are_local(mounts, "/older/run"), "");
  EXPECT_EQ(why_locks_are_local(mounts, "/old/disk/run"), "");
  EXPECT_EQ(why_locks_are_local(mounts, "/scratch"),
            "/scratch (lustre) is mounted with localflock");
  EXPECT_EQ(why_locks_are_local("", "/x"), "");
}

}  // namespace
}  // namespace trireme
